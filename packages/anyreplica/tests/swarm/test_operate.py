"""The commands of docs/guides/operate.md, in a Swarm of three nodes."""

import hashlib
import io
import json
import re
import secrets
import subprocess
import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from conftest import ROOT, environment, until
from tests.calls import legacy
from tests.docs.blocks import blocks
from tests.swarm import nodes
from tests.swarm.stack import IMAGE, NAME, Stack
from tests.swarm.test_keys import PROTECTION, keep, write
from tests.template.test_image import docker

pytestmark = [pytest.mark.needs("nodes"), pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def stack(images: None) -> Iterator[Stack]:
    """A separate stack with jobs."""
    made = Stack(f"{NAME}-operate", PORT="8151", STACK=f"{NAME}-operate")
    try:
        made.deploy("good", "REPLICAS=1", "WORKERS=1", "OVERLAYS=deploy/jobs.yml")
        yield made
    finally:
        made.make("undeploy")


def run_block(
    part: str, stack: Stack, replaced: dict[str, str] | None = None, host: str = "", folder: Path = ROOT
) -> str:
    """Run the block of the page, or of `deploy-to-swarm.md`, that contains a text, and return its output.

    Args:
        part: a pattern that only this block contains.
        stack: the stack, in place of mcp-swarm.
        replaced: texts of the block, each with the text that a person writes in its place.
        host: `DOCKER_HOST` of the node on which the block must run. Empty: the node that the tests use.
        folder: the project's folder.
    """
    pages = ("operate.md", "deploy-to-swarm.md")
    (block,) = [each for each in blocks("bash") if each.page.name in pages and re.search(part, each.text, re.MULTILINE)]
    text = re.sub(r"mcp-swarm(?=[_-])", stack.name, block.text)
    for old, new in (replaced or {}).items():
        assert old in text
        text = text.replace(old, new)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=folder,
        env=environment(
            **stack.settings, DEPLOY_FLAGS="--resolve-image never", **({"DOCKER_HOST": host} if host else {})
        ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def host_of(service: str) -> str:
    """Return the `DOCKER_HOST` of the node that runs the task of a service."""
    form = ["--filter", "desired-state=running", "--format", "{{.Node}}"]
    return nodes.engines()[int(docker("service", "ps", *form, service)[-1])]


def test_go_back_to_the_previous_image(stack: Stack) -> None:
    """`make rollback` returns to the earlier image and keeps the rest, and IMAGE names any other one."""
    stack.deploy("next")
    assert stack.images() == {f"{IMAGE}:next"}
    assert "Nothing has changed." in run_block("--dry-run", stack)
    assert f"{IMAGE}:next" in run_block("^docker service ps --filter", stack)
    said = run_block("^make rollback", stack)
    assert 'Keeping OVERLAYS="deploy/jobs.yml"' in said
    assert stack.images() == {f"{IMAGE}:good"}
    known = docker("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", IMAGE).split()
    (other,) = (name for name in known if re.fullmatch(rf"{IMAGE}:next-[0-9a-f]{{12}}", name))
    run_block("^IMAGE=mcp-swarm", stack, {"mcp-swarm:3f2a9c1d0b7e": other})
    assert stack.images() == {f"{IMAGE}:next"}


def test_find_out_why_a_container_ended(stack: Stack) -> None:
    """The exit code of a killed replica is in the list of its tasks, and Docker knows whether memory was the reason."""
    host = host_of(f"{stack.name}_worker")
    (container,) = docker("--host", host, "ps", "--quiet", "--filter", f"name={stack.name}_worker").split()
    docker("--host", host, "kill", container)
    told = run_block(r"\.State\.OOMKilled", stack, {"CONTAINER": container}, host)
    assert told.split()[-2:] == ["false", "137"]
    stack.wait("1/1", 120)
    listed = docker("service", "ps", "--no-trunc", f"{stack.name}_worker")
    assert "task: non-zero exit (137)" in listed
    assert "Running" in run_block("ps --no-trunc", stack)


def test_back_up_and_restore_the_jobs(stack: Stack, tmp_path: Path) -> None:
    """A restored Redis has the jobs of the time of the backup, and no later ones."""

    def submit() -> str:
        reply = httpx.post(f"{stack.url}/jobs", json={"job": "generate_report", "params": {"rows": 10}}, timeout=30)
        return str(reply.json()["id"])

    def status(identity: str) -> int:
        return httpx.get(f"{stack.url}/jobs/{identity}/result", timeout=30).status_code

    kept = submit()
    until(lambda: status(kept) == 200, "the job has a result", 60)
    host = host_of(f"{stack.name}_redis")
    run_block("--rdb", stack, host=host, folder=tmp_path)
    assert (tmp_path / "jobs.rdb").read_bytes().startswith(b"REDIS")
    later = submit()
    until(lambda: status(later) == 200, "the later job has a result", 60)
    run_block("^docker service scale mcp-swarm_redis=0", stack)
    run_block("appendonlydir", stack, {"redis:8-alpine": f"{IMAGE}:services"}, host, tmp_path)
    run_block("^docker service scale mcp-swarm_redis=1", stack)
    until(lambda: status(kept) == 200, "the restored job has its result", 60)
    assert status(later) == 404
    after = submit()
    until(lambda: status(after) == 200, "a new job has a result", 60)


def test_keep_redis_on_its_node(stack: Stack) -> None:
    """The label is the one that `deploy/jobs.yml` names in the lines that it has for this."""
    name = docker("--host", host_of(f"{stack.name}_redis"), "info", "--format", "{{.Name}}")
    try:
        run_block("label-add jobs", stack, {"NODE": name})
        labels = docker("node", "inspect", "--format", "{{json .Spec.Labels}}", name)
        constraint = re.search(
            r"# +constraints: \[node\.labels\.(\w+) == (\w+)\]", (ROOT / "deploy/jobs.yml").read_text()
        )
        assert constraint is not None
        assert json.loads(labels)[constraint[1]] == constraint[2]
    finally:
        docker("node", "update", "--label-rm", "jobs", name)


def test_take_a_node_out(stack: Stack) -> None:
    """A drained node has no task of the stack, and the service keeps its replicas."""
    name = "node3"
    assert "node" in run_block("docker stack ps --filter", stack, {"mcp-swarm": stack.name})
    try:
        run_block("availability drain", stack, {"NODE": name})
        until(lambda: name not in stack.nodes(), "the node has no replica", 120)
        stack.wait("1/1", 120)
    finally:
        docker("node", "update", "--availability", "active", name)


def load_image(name: str, created: str, label: str) -> None:
    """Give the engine an image with one small layer, a time of creation and a label.

    An engine shows the time in the image itself. So an image can be old, although it has just been loaded.
    """

    def archive(files: dict[str, bytes]) -> bytes:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for path, content in files.items():
                entry = tarfile.TarInfo(path)
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
        return packed.getvalue()

    layer = archive({"name": name.encode()})
    config = {
        "architecture": docker("version", "--format", "{{.Server.Arch}}"),
        "os": "linux",
        "created": created,
        "config": {"Labels": {label: "yes"}},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        "history": [{"created": created}],
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    files = {"config.json": json.dumps(config), "manifest.json": json.dumps(manifest)}
    image = archive({"layer.tar": layer, **{path: text.encode() for path, text in files.items()}})
    subprocess.run(["docker", "load", "--quiet"], input=image, capture_output=True, check=True)


def test_remove_old_images(stack: Stack) -> None:
    """The command removes an image that is older than a week, and keeps a newer one and one that a container uses.

    A label restricts the command to the images of this test.
    """
    label = f"anyreplica.{secrets.token_hex(4)}"
    old, used, new = (f"{label}:{tag}" for tag in ("old", "used", "new"))
    now = datetime.now(UTC).isoformat()
    for image, created in ((old, "2020-01-01T00:00:00Z"), (used, "2020-01-01T00:00:00Z"), (new, now)):
        load_image(image, created, label)
    container = docker("create", used, "no-command")  # as the page says: a stopped container keeps its image
    try:
        said = run_block("image prune", stack, {"--force": f"--force --filter label={label}"})
        assert re.findall("^untagged: (.*)$", said, re.MULTILINE) == [old]
        left = docker("image", "ls", "--filter", f"label={label}", "--format", "{{.Tag}}")
        assert sorted(left.split()) == ["new", "used"]
    finally:
        docker("rm", container)
        docker("rmi", old, used, new, check=False)


def test_revoke_a_leaked_key(stack: Stack, tmp_path: Path) -> None:
    """A secret with a new name replaces the keys, and later deployments keep it."""
    keys = ("a" * 32, "b" * 32)
    first, second = (f"api_keys_{secrets.token_hex(4)}" for _ in keys)

    def status(key: str) -> int:
        return legacy(stack.url, "tools/list", Authorization=f"Bearer {key}").status_code

    keep(tmp_path, first, *keys)
    try:
        stack.deploy("good", "OVERLAYS=deploy/jobs.yml deploy/keys.yml", f"API_KEYS_SECRET={first}")
        assert [status(key) for key in keys] == [200, 200]
        run_block("cat /run/secrets/api_keys", stack, host=host_of(stack.service), folder=tmp_path)
        assert (tmp_path / "api_keys.now").read_text() == (tmp_path / first).read_text()
        write(tmp_path / "api_keys", keys[1])
        block = {"api_keys_2 api_keys": f"{second} {tmp_path / 'api_keys'}", "=api_keys_2": f"={second}"}
        run_block("secret create api_keys_2", stack, block)
        assert [status(key) for key in keys] == [401, 200]
        assert f"Keeping API_KEYS_SECRET={second}" in stack.deploy("good")
    finally:
        stack.deploy("good", "OVERLAYS=deploy/jobs.yml", f"ALLOW_DROP={PROTECTION}")
        for name in (first, second):
            docker("secret", "rm", name, check=False)


def test_change_the_keys_of_request_states(stack: Stack) -> None:
    """A secret with a new name replaces the keys of request states, and later deployments keep it."""
    name = f"request_state_keys_{secrets.token_hex(4)}"
    values = {"$OLD": "a" * 64, "$NEW": "b" * 64, "request_state_keys_2": name}
    try:
        run_block("secret create auth_token_2", stack, {"auth_token_2": f"{name}_b"})
        run_block("secret create jobs_url_2", stack, {"jobs_url_2": f"{name}_c"})
        run_block("REQUEST_STATE_KEYS_SECRET", stack, values)
        assert f"Keeping REQUEST_STATE_KEYS_SECRET={name}" in stack.deploy("good")
    finally:
        stack.deploy("good", "REQUEST_STATE_KEYS_SECRET=request_state_keys")
        docker("secret", "rm", name, f"{name}_b", f"{name}_c", check=False)
