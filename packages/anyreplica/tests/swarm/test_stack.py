"""The stack in a real Swarm behind its routing mesh.

The tests need a docker command that reaches a manager of the Swarm. The nodes must have the images of
`tests/swarm/Dockerfile`, or be able to get them from this manager. The mesh's port must be reachable on 127.0.0.1, or
at SWARM_URL. `.ci/run` boots such a Swarm in three virtual machines.
"""

from collections import Counter

import pytest

from conftest import until
from tests.calls import get, modern
from tests.swarm.stack import SERVICE, Stack
from tests.template.test_image import docker
from tests.template.test_scripts import script

pytestmark = [pytest.mark.needs("swarm"), pytest.mark.timeout(900)]


def spread(url: str) -> Counter[str]:
    """Return the number of answers of each replica for thirty new connections."""
    return Counter(get(f"{url}/version").headers["X-Served-By"] for _ in range(30))


def test_the_mesh_spreads_new_connections_evenly(stack: Stack) -> None:
    """The mesh spreads new connections in turn: of thirty, each replica gets ten."""
    until(
        lambda: sorted(spread(stack.url).values()) == [10, 10, 10], "each of three replicas gets ten of thirty requests"
    )


def test_any_replica_answers_any_request(stack: Stack) -> None:
    """Any replica answers requests of the stateless protocol, each on a new connection."""
    answers = [modern(stack.url, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}) for _ in range(9)]
    assert {answer.json()["result"]["structuredContent"]["result"] for answer in answers} == {3}
    assert len({answer.headers["X-Served-By"] for answer in answers}) == 3


def test_the_scripts_pass(stack: Stack) -> None:
    """The two scripts pass when an operator runs them as README says."""
    for family in ("legacy", "modern"):
        done = script("test_mcp_client.py", "--url", f"{stack.url}/mcp", "--protocol", family, "--rapid", "12")
        assert done.returncode == 0, done.stdout + done.stderr
    done = script("test_swarm_load.py", "--url", f"{stack.url}/mcp", "--requests", "300")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_settings_of_stack_yml_are_in_force(stack: Stack) -> None:
    """The settings of stack.yml are in force.

    Swarm ignores unknown settings silently.
    """
    spec = docker("service", "inspect", SERVICE, "--format", "{{json .Spec}}")
    for setting in (
        '"ReadOnly":true',
        '"CapabilityDrop":["ALL"]',
        '"StopGracePeriod":35000000000',
        '"Condition":"any"',
        '"MaxAttempts":0',  # no limit
        '"FailureAction":"rollback"',
        '"Order":"start-first"',
        '"MemoryBytes":536870912',
        '"Name":"nofile"',
    ):
        assert setting in spec


def test_a_stack_that_never_starts_is_reported(stack: Stack) -> None:  # The fixture makes the images and secrets.
    """`make deploy` stops waiting after DEPLOY_SECONDS for a stack that never starts, and prints the reason."""
    broken = Stack("anyreplica-broken", PORT="8159")
    try:
        said = broken.deploy("crashing", "DEPLOY_SECONDS=45", ok=False)
        assert "has not converged within 45 s (DEPLOY_SECONDS)" in said
        assert "non-zero exit (1)" in said
    finally:
        broken.make("undeploy")
