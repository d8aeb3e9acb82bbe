"""Tests of the image on a real Docker engine."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from packaging.utils import canonicalize_name

from conftest import PACKAGE, ROOT, free_port, run, until
from tests.calls import call, text
from tests.deploy.network import only_root
from tests.template.test_template import copied_into, make, project

pytestmark = [pytest.mark.system, pytest.mark.needs("docker"), pytest.mark.alone]


def docker(*arguments: str, check: bool = True) -> str:
    """Run a docker command and return its output."""
    done = subprocess.run(["docker", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0 or not check, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def image() -> str:
    """The image, built by `make image`."""
    name = "mcp-swarm:test"
    done = subprocess.run(["make", "image", f"IMAGE={name}"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return name


@pytest.fixture(scope="module")
def container(image: str) -> Iterator[tuple[str, str]]:
    """A container with the settings of stack.yml, and its URL."""
    port = free_port()
    options = ("--publish", f"127.0.0.1:{port}:8000", "--cap-drop", "ALL", "--memory", "512m")
    with running("--read-only", "--tmpfs", "/tmp", *options, image) as name:  # noqa: S108
        yield name, f"http://127.0.0.1:{port}"


def wait_healthy(name: str) -> None:
    """Wait until Docker reports that a container is healthy."""
    status = ("inspect", "--format", "{{.State.Health.Status}}", name)
    until(lambda: docker(*status) == "healthy", "the container is healthy")


@contextlib.contextmanager
def running(*options: str) -> Iterator[str]:
    """Run a container until the block ends. Yield its name."""
    name = f"anyreplica-test-{uuid.uuid4().hex[:8]}"
    docker("run", "--detach", "--name", name, *options)
    try:
        yield name
    finally:
        docker("rm", "--force", name)


def test_a_server_without_jobs_gets_an_image(tmp_path: Path) -> None:
    """An image can be built for a server without jobs, for example after a user has deleted the samples."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        needed = name.startswith(("server/", "packages/anyreplica/", "locks/")) and "/tests/" not in name
        sample = re.fullmatch(r"server/(tools|resources|prompts|jobs)/[a-z].*", name)
        if needed and not sample and (ROOT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / name)
    docker("build", "--file", str(tmp_path / "server/Dockerfile"), "--tag", "mcp-swarm:no-jobs", str(tmp_path))
    checked = docker("run", "--rm", "mcp-swarm:no-jobs", "python", "-m", "server", "check")
    assert "no tools, resources, prompts or jobs" in checked
    docker("rmi", "mcp-swarm:no-jobs")


WHERE_FROM = """
from importlib.metadata import distribution
print(distribution("anyreplica").read_text("direct_url.json"))
"""


def test_a_project_with_the_wheel_gets_an_image(tmp_path: Path) -> None:
    """`make image` of a project takes the wheel of the project, and no index needs to have anyreplica."""
    (tmp_path / "template").mkdir()
    made = project(copied_into(tmp_path / "template"), tmp_path / "shop")
    (wheel,) = (made / "packages").glob("*.whl")
    built = make(made, "image", "IMAGE=shop:test")
    assert built.returncode == 0, built.stdout + built.stderr
    try:
        checked = docker("run", "--rm", "shop:test", "python", "-m", "server", "check")
        assert " (anyreplica 0.2.0): settings and components are valid.\n" in checked
        assert f"file:///tmp/packages/{wheel.name}" in docker("run", "--rm", "shop:test", "python", "-c", WHERE_FROM)
        with running("--read-only", "--tmpfs", "/tmp", "shop:test") as name:  # noqa: S108
            wait_healthy(name)
    finally:
        docker("rmi", "shop:test", check=False)


def test_the_container_becomes_healthy_and_serves(container: tuple[str, str]) -> None:
    """A read-only container without capabilities becomes healthy and serves; its host name is the container's id."""
    name, url = container
    wait_healthy(name)
    assert docker("inspect", "--format", "{{.Id}}", name).startswith(httpx.get(f"{url}/version").json()["hostname"])
    assert text(call(url, "echo", {"message": "from a container"})) == "from a container"


@only_root
def test_it_serves_in_a_network_with_ipv6_only(image: str) -> None:
    """No interface has an IPv4 address. The container becomes healthy, and answers calls."""
    six = ("--network", "none", "--sysctl", "net.ipv6.conf.all.disable_ipv6=0", "--entrypoint", "sleep")
    with running(*six, image, "600") as network:
        enter = ("nsenter", "--net", "--target", docker("inspect", "--format", "{{.State.Pid}}", network))
        run(*enter, "ip", "addr", "del", "127.0.0.1/8", "dev", "lo")
        assert run(*enter, "ip", "-4", "addr").stdout == ""
        with running("--network", f"container:{network}", image) as name:
            wait_healthy(name)
            script = "import sys; from tests.calls import *; print(text(call(sys.argv[1], 'echo', {'message': 'six'})))"
            done = run(*enter, sys.executable, "-c", script, "http://[::1]:8000", PYTHONPATH=str(PACKAGE))
            assert done.stdout == "six\n", done.stderr


def test_it_is_small(image: str) -> None:
    """The image adds less than 100 MB to its base image."""
    base = os.environ.get("PYTHON_IMAGE", "python:3.13-slim")
    if not docker("images", "--quiet", base):  # An engine that builds with BuildKit does not keep the base image.
        docker("pull", "--quiet", base)
    sizes = docker("image", "inspect", "--format", "{{.Size}}", image, base).split()
    added = int(sizes[0]) - int(sizes[1])
    assert added < 100e6, f"{added / 1e6:.0f} MB"


NOT_COMPILED = """
import glob, sys
import server.__main__, server.server, anyreplica.features.jobs.worker_app
import anyreplica.features.jobs.backend, anyreplica.features.jobs.worker
compiled = [module.__cached__ for module in list(sys.modules.values()) if getattr(module, "__cached__", None)]
# A loader of beartype imports some packages and adds its version to the file name.
print([file for file in compiled if not glob.glob(file.removesuffix(".pyc") + "*")])
"""


def test_nothing_is_compiled_at_a_start(image: str) -> None:
    """All modules are compiled in the image: a replica cannot keep what it compiles at each start."""
    assert docker("run", "--rm", image, "python", "-c", NOT_COMPILED) == "[]"


WHAT_IS_IN_IT = """
import importlib.metadata, json, os, stat
mine = ["/app", "/opt/venv"]
files = [os.path.join(at, name) for root in mine for at, _, names in os.walk(root) for name in names]
print(json.dumps({
    "distributions": sorted(each.name for each in importlib.metadata.distributions()),
    "writable": [path for path in files + mine if os.access(path, os.W_OK)],
    "privileged": [file for file in files if os.lstat(file).st_mode & (stat.S_ISUID | stat.S_ISGID)],
    "app": sorted({os.path.relpath(file, "/app").split("/")[0] for file in files if file.startswith("/app")}),
    "left over": [path for path in ("/var/cache/pip", "/tmp") if os.path.isdir(path) and os.listdir(path)],
}))
"""


def test_the_image_has_no_leftovers(image: str) -> None:
    """The image has only packages of the lock file, no pip and no compiler, and runs commands without a shell.

    Its user is not root and cannot change any of its files, and no file is privileged.
    """
    inspected = json.loads(docker("inspect", image))[0]["Config"]
    assert inspected["User"] == "10001:10001"
    assert inspected["Cmd"] == ["python", "-m", "server"]
    assert inspected["Healthcheck"]["Test"] == ["CMD", "python", "-I", "-S", "/app/probe.py"]
    assert docker("run", "--rm", image, "id", "-u") == "10001"
    assert docker("run", "--rm", image, "sh", "-c", "command -v gcc cc make curl /opt/venv/bin/pip; true") == ""
    found = json.loads(docker("run", "--rm", image, "python", "-c", WHAT_IS_IN_IT))
    locked = re.findall(r"^([\w.-]+)(?:\[.*\])?==", (ROOT / "locks" / "server.lock").read_text(), re.MULTILINE)
    known = {*map(canonicalize_name, locked), "anyreplica"}
    assert {canonicalize_name(name) for name in found.pop("distributions")} <= known
    assert found == {"writable": [], "privileged": [], "app": ["examples", "probe.py", "server"], "left over": []}


def test_it_needs_no_shell(image: str) -> None:
    """A container without any shell becomes healthy and serves."""
    nothing = [argument for shell in ("sh", "bash", "dash") for argument in ("-v", f"/dev/null:/usr/bin/{shell}")]
    with running("--read-only", "--tmpfs", "/tmp", *nothing, image) as name:  # noqa: S108
        wait_healthy(name)


def test_it_checks_itself(image: str) -> None:
    """`check` in the image checks the settings and components, as a start does."""
    assert "settings and components are valid" in docker("run", "--rm", image, "python", "-m", "server", "check")
    refused = run("docker", "run", "--rm", "-e", "LOG_FORMAT=xml", image)
    assert (refused.returncode, refused.stderr) == (3, "LOG_FORMAT=xml: must be 'text' or 'json'\n")


def test_docker_stop_ends_the_server_with_0(image: str) -> None:
    """After `docker stop`, the server drains and exits with 0, before Docker would kill it."""
    with running("-e", "DRAIN_SECONDS=1", image) as name:
        wait_healthy(name)
        docker("stop", "--time", "20", name)
        assert docker("inspect", "--format", "{{.State.ExitCode}}", name) == "0"
        assert "SIGTERM received: draining for 1 s, then stopping" in run("docker", "logs", name).stderr


def test_compose_serves_and_reloads() -> None:
    """`docker compose up --build` serves, and reloads after an edit."""
    port, project = free_port(), f"anyreplica-test-{uuid.uuid4().hex[:8]}"
    edited = ROOT / "server" / "tools" / "_edited_by_a_test.py"

    def run_compose(*arguments: str) -> str:
        command = ["env", f"PORT={port}", "docker", "compose", "--project-name", project, *arguments]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    try:
        run_compose("up", "--build", "--detach", "--wait")
        assert httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200
        edited.write_text("")
        until(lambda: "Reloading" in run_compose("logs", "mcp"), "the log contains 'Reloading'")
    finally:
        edited.unlink(missing_ok=True)
        run_compose("down", "--volumes", "--timeout", "5")


def test_an_image_with_extras_serves_packs_and_traces() -> None:
    """The extras of `make image EXTRAS=…` are enough for example packs and traces."""
    name = "mcp-swarm:test-extras"
    subprocess.run(["make", "image", f"IMAGE={name}", "EXTRAS=traces examples"], cwd=ROOT, check=True)
    packs = ",".join(f"examples.{pack}" for pack in ("analytics", "devops", "utilities"))
    settings = [f"MCP_COMPONENTS=server,{packs}", "OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318"]
    options = [option for setting in settings for option in ("--env", setting)]
    told = docker("run", "--rm", *options, name, "python", "-m", "server", "check")
    assert "get_sales_by_region" in told
    assert "convert_format" in told
