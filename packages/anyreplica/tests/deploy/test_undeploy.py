"""Tests of `make undeploy`: it ends when a deployment under the same name can start."""

import pytest

from tests.deploy.conftest import Swarm

pytestmark = pytest.mark.servers


def test_undeploy_waits_for_tasks_and_networks(swarm: Swarm) -> None:
    """`make undeploy` ends when the tasks and the networks of the stack are gone."""
    swarm.put(tasks={"mcp-swarm_mcp.1": 1}, networks={"mcp-swarm_default": 2})
    swarm.undeploy()
    assert swarm.state["tasks"] == swarm.state["networks"] == {}


def test_undeploy_names_what_is_left(swarm: Swarm) -> None:
    """After the time limit, `make undeploy` fails and lists what still exists."""
    swarm.put(tasks={"mcp-swarm_mcp.1": 999}, networks={"mcp-swarm_default": 999})
    told = swarm.undeploy(ok=False, UNDEPLOY_SECONDS="1")
    assert "After 1 s (UNDEPLOY_SECONDS), these parts of the stack mcp-swarm still exist:\n" in told
    assert "\n  task mcp-swarm_mcp.1\n  network mcp-swarm_default\n" in told


def test_a_network_that_a_task_still_uses_is_removed_later(swarm: Swarm) -> None:
    """Docker refuses to remove it, and does not try again by itself."""
    swarm.put(
        tasks={"mcp-swarm_mcp.1": 2}, networks={"mcp-swarm_default": 999}, networks_in_use={"mcp-swarm_default": 2}
    )
    told = swarm.undeploy()
    assert "mcp-swarm_default is in use by task 67jxc" in told
    assert "Waiting until this task has ended …" in told
    assert swarm.state["networks"] == {}


def test_another_failure_of_the_removal_is_told(swarm: Swarm) -> None:
    """`make undeploy` then fails at once, with docker's text."""
    told = swarm.undeploy(ok=False, STACK="refused")
    assert "permission denied" in told


def test_a_failure_of_docker_is_not_an_empty_stack(swarm: Swarm) -> None:
    """If docker can't list the networks, `make undeploy` fails with docker's error."""
    swarm.put(tasks={}, networks=None)
    assert "Cannot connect to the Docker daemon." in swarm.undeploy(ok=False)


@pytest.mark.parametrize("value", ["ten", "-1", "1.5", "inf", "1000000"])
def test_a_wrong_limit_is_refused(swarm: Swarm, value: str) -> None:
    """A limit that is not a whole number of seconds is refused. Before, the wait had no end."""
    swarm.put(tasks={}, networks={"mcp-swarm_default": 999})
    told = swarm.undeploy(ok=False, UNDEPLOY_SECONDS=value)
    assert f"UNDEPLOY_SECONDS={value}: not a whole number of seconds from 0 to 99999." in told
