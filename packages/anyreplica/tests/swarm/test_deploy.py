"""Tests of `make deploy` for a running stack in a Swarm."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import until
from tests.calls import legacy
from tests.swarm import nodes
from tests.swarm.stack import IMAGE, NAME, Stack
from tests.swarm.test_keys import PROTECTION, keep
from tests.template.test_image import docker

pytestmark = [pytest.mark.needs("nodes"), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def deployed() -> Iterator[Stack]:
    """A separate stack for tests that change it."""
    stack = Stack(f"{NAME}-single", PORT="8153")
    try:
        yield stack
    finally:
        stack.make("undeploy")


@pytest.fixture
def single(deployed: Stack) -> Stack:
    """The separate stack with one replica and without overlays."""
    deployed.deploy("good", "REPLICAS=1", "OVERLAYS=")
    return deployed


def tasks(stack: Stack) -> set[str]:
    """Return the ids of the running tasks."""
    return set(docker("service", "ps", "--quiet", "--filter", "desired-state=running", stack.service).split())


def build_again(tag: str, name: str) -> None:
    """Give a name to one of the images on all nodes, as a build with `docker save` and `docker load` does."""
    content = docker("image", "inspect", "--format", "{{.Id}}", f"{IMAGE}:{tag}").removeprefix("sha256:")[:12]
    for host in nodes.engines().values():
        for new in (name, f"{name}-{content}"):
            docker("--host", host, "image", "tag", f"{IMAGE}:{tag}", new)


@pytest.mark.slow
def test_an_edit_is_deployed_under_the_same_tag(single: Stack) -> None:
    """A new content under the same tag is deployed; the same content causes no changes."""
    name = f"{IMAGE}:edited"
    build_again("good", name)
    said = single.deploy("edited", "OVERLAYS=")
    first = tasks(single)
    assert f"Deploying {name}-" in said
    said = single.deploy("edited", "OVERLAYS=")
    assert "No changes in image or files." in said
    assert tasks(single) == first
    build_again("next", name)
    said = single.deploy("edited", "OVERLAYS=")
    assert "Changes:\n  mcp.image: " in said
    assert tasks(single).isdisjoint(first)
    assert "could not be accessed on a registry" not in said


@pytest.mark.long
def test_progress_and_the_address_are_printed(stack: Stack) -> None:
    """`make deploy` prints its progress as lines, and how to add the server to a client."""
    said = stack.deploy("next" if stack.images() == {f"{IMAGE}:good"} else "good", "OVERLAYS=")
    assert "mcp: 1 of 3 new tasks running" in said
    assert "mcp: 3 of 3 new tasks running" in said
    assert f":{stack.port}/mcp\nTo add it to a client" in said


@pytest.mark.slow
def test_a_replica_of_a_service_offers_no_jobs_of_its_own(single: Stack) -> None:
    """The service can be scaled at any time, and other replicas would not know these jobs.

    `make deploy` keeps the number of replicas.
    """
    tools = {tool["name"] for tool in legacy(single.url, "tools/list").json()["result"]["tools"]}
    assert "submit_job" not in tools
    single.scale(3)
    said = single.deploy("good")
    assert "Keeping REPLICAS=3 of the running stack." in said
    assert single.replicas() == "3/3"


@pytest.mark.slow
def test_authentication_is_not_dropped_by_mistake(single: Stack, tmp_path: Path) -> None:
    """`make deploy` keeps the overlays of the running stack, and drops API keys only with ALLOW_DROP."""
    (name,) = names = [f"api_keys_{uuid.uuid4().hex[:8]}"]
    keep(tmp_path, name, "k" * 40)
    try:
        single.deploy("good", "OVERLAYS=deploy/keys.yml", f"API_KEYS_SECRET={name}")
        assert 'Keeping OVERLAYS="deploy/keys.yml"' in single.deploy("good")
        assert legacy(single.url, "tools/list").status_code == 401
        said = single.deploy("good", "OVERLAYS=", ok=False)
        assert f"this deployment would drop {PROTECTION}" in said
        assert f'ALLOW_DROP="{PROTECTION}" make deploy' in said
        assert legacy(single.url, "tools/list").status_code == 401
        single.deploy("good", "OVERLAYS=", f"ALLOW_DROP={PROTECTION}")
        until(lambda: legacy(single.url, "tools/list").status_code == 200, "the stack answers without a key", 60)
    finally:
        docker("secret", "rm", *names, check=False)
