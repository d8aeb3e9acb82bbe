"""Tests of what `make deploy` says about nodes that may lack an image without a registry."""

import pytest

from tests.deploy.conftest import Swarm

pytestmark = [pytest.mark.servers, pytest.mark.needs("docker")]

FIRST, SECOND = "a1" * 32, "b2" * 32
"""The ids of two images."""
TAGGED = "mcp-swarm:a1a1a1a1a1a1"
"""The name of the first image, with the tag that `make deploy` gives it."""


def nodes(*names: str, **others: str) -> dict[str, str]:
    """Return active nodes, and others with their availability."""
    return dict.fromkeys(names, "Active") | others


@pytest.mark.slow
def test_only_nodes_that_may_lack_the_image_are_named(swarm: Swarm) -> None:
    """The line about copies names nodes on which no replica with this image runs, and is absent without such a node."""
    swarm.put(nodes=nodes("manager"), images={"mcp-swarm:latest": FIRST})
    assert "docker save" not in swarm.deploy(), "the only node has built the image"
    swarm.put(nodes=nodes("manager", "two", "three"))
    told = swarm.deploy(LOG_LEVEL="DEBUG")
    assert f"The image {TAGGED} is not in a registry, and these nodes may not have it: two, three. Copy it" in told
    assert f"  docker save {TAGGED} | ssh NODE docker load\n" in told
    assert "docker save" not in swarm.deploy(REPLICAS="5"), "each node runs this image"
    swarm.put(nodes=nodes("manager", "two", "three", "four"))
    assert "these nodes may not have it: four. Copy" in swarm.deploy(REPLICAS="6")
    assert "docker save" not in swarm.deploy("--same-image")
    swarm.put(nodes=nodes("manager", "two", "three", "four", five="Drain"))
    assert "docker save" not in swarm.deploy(REPLICAS="5"), "a drained node gets no replica"
    swarm.put(images={"mcp-swarm:latest": SECOND})
    assert "these nodes may not have it: two, three, four. Copy" in swarm.deploy(), "the image is new"


def test_nodes_pull_an_image_of_a_registry(swarm: Swarm) -> None:
    """There is nothing to copy, whatever number of nodes the Swarm has."""
    swarm.put(nodes=nodes("manager", "two"))
    assert "docker save" not in swarm.deploy(IMAGE="registry.example.com/server:1")
