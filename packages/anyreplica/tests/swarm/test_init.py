"""The stack file of `anyreplica init` in a Swarm, with the commands of `docs/guides/fastmcp-server.md`."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from anyreplica.cli.init import main
from conftest import environment, until
from tests.calls import call, text
from tests.docs.blocks import blocks
from tests.swarm import nodes
from tests.swarm.stack import IMAGE, Stack
from tests.template.test_image import docker

pytestmark = [pytest.mark.needs("nodes"), pytest.mark.timeout(900)]

NAME = "shop"


@pytest.fixture
def shop(tmp_path: Path, images: None) -> Iterator[Path]:
    """The folder of a server after `init`, and two images with the names of the page on every node."""
    folder = tmp_path / NAME
    folder.mkdir()
    (folder / "server.py").touch()
    (folder / "requirements.txt").touch()
    assert main(["--folder", str(folder), "--port", "8153"]) == 0
    for host in nodes.engines().values():
        for tag, target in (("1", "good"), ("2", "next")):
            docker("--host", host, "image", "tag", f"{IMAGE}:{target}", f"{NAME}:{tag}")
    yield folder
    Stack(NAME).make("undeploy")


def commands() -> list[str]:
    """Return the commands of the page. The images are there, the machine is in a Swarm, and the keys may exist."""
    found = [block.text for block in blocks("bash") if block.shown_by.endswith("swarm/test_init.py")]
    lines = [line for line in "".join(found).splitlines() if not line.startswith(("docker build", "docker swarm init"))]
    return [f"docker secret inspect request_state_keys >/dev/null 2>&1 || {lines[0]}", *lines[1:]]


@pytest.mark.slow
def test_the_commands_of_the_page_deploy_and_update(shop: Path) -> None:
    """Three replicas answer behind the mesh, and a new image replaces them."""
    secret, deploy, update = commands()
    stack = Stack(NAME, PORT="8153")
    for number, command in enumerate((secret, deploy, update)):
        done = subprocess.run(
            ["bash", "-ec", command], cwd=shop, env=environment(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        if number:
            until(lambda: stack.replicas() == "3/3", "three replicas run", 60)
            assert text(call(stack.url, "echo", {"message": "x"})) == "x"
    image = "{{.Spec.TaskTemplate.ContainerSpec.Image}}"
    assert docker("service", "inspect", "--format", image, stack.service).startswith(f"{NAME}:2")
