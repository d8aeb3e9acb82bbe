"""Tests of several nodes that get the image from a registry in the same Swarm, as README says."""

from collections.abc import Iterator

import pytest

from conftest import until
from tests.swarm import nodes
from tests.swarm.stack import IMAGE, NAME, Stack
from tests.swarm.test_events import serves
from tests.template.test_image import docker

pytestmark = [pytest.mark.needs("nodes"), pytest.mark.long, pytest.mark.timeout(600)]

REGISTRY = "127.0.0.1:5000"
NAMED = f"{REGISTRY}/mcp-swarm:1"


@pytest.fixture
def registry() -> Iterator[None]:
    """A registry as a service of the Swarm; the mesh leads port 5000 of each node to it."""
    # Debian's default configuration requires a password.
    settings = "{version: 0.1, storage: {filesystem: {rootdirectory: /var/lib/docker-registry}}, http: {addr: ':5000'}}"
    serve = ("sh", "-c", f'echo "{settings}" >/tmp/config.yml && exec docker-registry serve /tmp/config.yml')
    volume = ("--mount", "type=tmpfs,target=/var/lib/docker-registry")
    docker(
        "service",
        "create",
        "--quiet",
        "--name",
        "registry",
        "--no-healthcheck",  # the image's own check is for a replica
        "--publish",
        "5000:5000",
        *volume,
        f"{IMAGE}:services",
        *serve,
    )
    yield
    docker("service", "rm", "registry")


@pytest.mark.usefixtures("registry")
def test_each_node_pulls_what_was_pushed_once() -> None:
    """Each node pulls the image from the registry by its digest.

    Before that, only the node that pushed the image had an image of this name.
    """
    first, *others = nodes.engines().values()
    docker("--host", first, "image", "tag", f"{IMAGE}:good", NAMED)
    until(lambda: push(first), "the registry has accepted the image", 60)
    for host in others:
        assert docker("--host", host, "images", "--quiet", NAMED) == ""
    stack = Stack(f"{NAME}-single", PORT="8153")
    try:
        said = stack.make("deploy", f"IMAGE={NAMED}", "REPLICAS=3", "DEPLOY_FLAGS=")
        assert f"Deploying {NAMED} as" in said
        assert "could not be accessed on a registry" not in said
        image = "{{.Spec.TaskTemplate.ContainerSpec.Image}}"
        assert f"{NAMED}@sha256:" in docker("service", "inspect", "--format", image, stack.service)
        assert len(stack.nodes()) == 3
        until(lambda: serves(stack), "the stack answers")
    finally:
        stack.make("undeploy")


def push(host: str) -> bool:
    """Push the image from an engine, and return whether the engine then has the registry's digest."""
    docker("--host", host, "push", "--quiet", NAMED, check=False)
    return REGISTRY in docker("--host", host, "image", "inspect", "--format", "{{.RepoDigests}}", NAMED)
