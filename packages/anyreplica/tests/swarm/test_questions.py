"""A rolling update while users are being asked: no call of a handshake-protocol client is lost."""

import asyncio
from collections.abc import Iterator

import pytest

from conftest import until
from tests.swarm.stack import IMAGE, NAME, Stack
from tests.swarm.test_deploy import tasks
from tests.swarm.users import SECONDS, converse
from tests.template.test_image import docker

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs("swarm"),
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning"),
]

OVERLAY = "packages/anyreplica/tests/swarm/sessions.yml"


@pytest.fixture
def asking(images: None) -> Iterator[Stack]:
    """A separate stack with three replicas that can ask handshake-protocol clients."""
    stack = Stack(f"{NAME}-questions", PORT="8153", MCP_COMPONENTS="server,asking,multi_round")
    try:
        stack.deploy("good", "REPLICAS=3", f"OVERLAYS={OVERLAY}")
        yield stack
    finally:
        stack.show_logs("mcp", "redis")
        stack.make("undeploy")


def inspected(form: str, ids: set[str]) -> list[str]:
    """Return a property of each of some tasks."""
    return docker("inspect", "--format", form, *ids).split()


def replace(stack: Stack) -> list[str]:
    """Replace all replicas by a rolling update, wait until the old ones have ended, and return their exit codes."""
    old = tasks(stack)
    stack.deploy("next")
    assert tasks(stack).isdisjoint(old)
    until(lambda: "running" not in inspected("{{.Status.State}}", old), "the old replicas have ended", SECONDS)
    return inspected("{{.Status.ContainerStatus.ExitCode}}", old)


def test_an_update_while_users_are_asked(asking: Stack) -> None:
    """All replicas are replaced while fifty users are being asked, and each user gets the greeting for its answer."""
    users, codes = asyncio.run(converse(asking.url, lambda: replace(asking)))
    assert codes == ["0"] * 3
    assert asking.images() == {f"{IMAGE}:next"}
    assert len({user.asked_by for user in users}) == 3, "each old replica has asked users"
