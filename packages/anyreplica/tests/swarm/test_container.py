"""Tests of the container settings in stack.yml, in containers that a Swarm has started.

`docker stack deploy` ignores unknown settings silently, for example `tmpfs: [/tmp]`. So the tests look into the
containers.
"""

import json
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from conftest import ROOT, until
from tests.calls import modern
from tests.swarm import nodes
from tests.swarm.stack import NAME, Stack
from tests.template.test_image import docker

pytestmark = [pytest.mark.needs("nodes"), pytest.mark.slow, pytest.mark.timeout(900)]

_LONGEST_LOOK_UP = 3.0
"""Maximum duration of a status request in seconds.

A replica waits at most two seconds for Redis. The rest is for slow virtual machines.
"""

LOOK = """
import json, os, resource, tempfile

def write(folder):
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x" * 2_000_000)
            return True
    except OSError:
        return False

with open("/proc/self/status") as status:
    lines = dict(line.rstrip().split(":\\t", 1) for line in status if ":\\t" in line)
folders = [at for at, _, _ in os.walk("/", topdown=True) if at.split("/")[1] not in ("proc", "sys", "dev")]
print(json.dumps({
    "uid": os.getuid(),
    "gid": os.getgid(),
    "capabilities": [int(lines[name], 16) for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")],
    "files": resource.getrlimit(resource.RLIMIT_NOFILE),
    "tempfile": write(None),
    "writable": [folder for folder in folders if write(folder)],
    "scratch": os.statvfs("/tmp").f_frsize * os.statvfs("/tmp").f_blocks,
}))
"""


@dataclass
class Container:
    """A container that Swarm has started on one of its nodes."""

    host: str
    name: str

    def docker(self, *arguments: str) -> str:
        """Run a docker command on the container's node and return its output."""
        return docker("--host", self.host, *arguments)

    @property
    def inspected(self) -> dict[str, Any]:
        """The container's data from `docker inspect`."""
        found: dict[str, Any] = json.loads(self.docker("inspect", self.name))[0]
        return found

    def python(self, program: str) -> Any:
        """Run a Python program in the container, and return its JSON output."""
        return json.loads(self.docker("exec", self.name, "python", "-c", program))


def containers(service: str) -> list[Container]:
    """Return the containers of a service on all nodes."""
    label = f"label=com.docker.swarm.service.name={service}"
    return [
        Container(host, name)
        for host in nodes.engines().values()
        for name in docker("--host", host, "ps", "--quiet", "--filter", label).split()
    ]


def limits(overlay: str, service: str) -> dict[str, Any]:
    """Return the settings of a service from its file."""
    found: dict[str, Any] = yaml.safe_load((ROOT / overlay).read_text())["services"][service]
    return found


@pytest.fixture(scope="module")
def with_jobs() -> Iterator[Stack]:
    """A stack with Redis and workers."""
    stack = Stack(f"{NAME}-jobs", PORT="8152")
    try:
        stack.deploy("good", "REPLICAS=1", "OVERLAYS=deploy/jobs.yml")
        until(
            lambda: "2/2" in docker("service", "ls", "--filter", f"name={stack.name}_worker"),
            "Swarm reports 2/2 workers",
            240,
        )
        yield stack
    finally:
        stack.make("undeploy")


@pytest.mark.parametrize(("overlay", "service"), [("stack.yml", "mcp"), ("deploy/jobs.yml", "worker")])
def test_a_replica_can_do_little_but_write_scratch_files(with_jobs: Stack, overlay: str, service: str) -> None:
    """A container has a read-only root, one scratch folder and no privileges of root.

    Its memory, processor time and number of open files are limited.
    """
    found = containers(f"{with_jobs.name}_{service}")
    assert found
    wanted = limits(overlay, service)
    (scratch,) = wanted["volumes"]
    for container in found:
        host = container.inspected["HostConfig"]
        assert host["ReadonlyRootfs"] is True
        assert host["CapDrop"] == ["ALL"]
        assert host["Memory"] == 512 * 1024 * 1024
        assert host["NanoCpus"] == 10**9
        seen = container.python(LOOK)
        assert (seen["uid"], seen["gid"]) == (10001, 10001)
        assert seen["capabilities"] == [0, 0, 0, 0]
        assert seen["tempfile"] is True
        assert seen["writable"] == ["/tmp"]  # noqa: S108
        assert seen["scratch"] == scratch["tmpfs"]["size"]
        assert seen["files"][0] == wanted["ulimits"]["nofile"]


def test_redis_can_write_its_volume_only(with_jobs: Stack) -> None:
    """Redis runs as the user redis, and can write only its volume."""
    (container,) = containers(f"{with_jobs.name}_redis")
    host = container.inspected["HostConfig"]
    assert (host["ReadonlyRootfs"], host["CapDrop"]) == (True, ["ALL"])
    folders = "/ /tmp /data /var /etc"
    script = f"for folder in {folders}; do touch $folder/x 2>/dev/null && rm $folder/x && echo $folder; done; id -un"
    assert container.docker("exec", container.name, "sh", "-c", script).split() == ["/data", "redis"]


def test_a_large_job_has_room(with_jobs: Stack) -> None:
    """A job can write more than 100,000 rows into a scratch file with SQLite.

    Meanwhile, status requests are answered quickly.
    """
    submitted = modern(
        with_jobs.url,
        "tools/call",
        {"name": "submit_job", "arguments": {"job": "generate_report", "arguments": {"rows": 300_000}}},
    )
    identity = submitted.json()["result"]["structuredContent"]["id"]

    looked: list[float] = []

    def state() -> dict[str, Any]:
        begun = time.monotonic()
        answer = modern(with_jobs.url, "tools/call", {"name": "job_status", "arguments": {"job_id": identity}})
        looked.append(time.monotonic() - begun)
        found: dict[str, Any] = answer.json()["result"]["structuredContent"]
        return found

    until(lambda: state()["status"] not in ("pending", "running"), "the job has ended", 300)
    assert state()["status"] == "completed", state()
    print(f"{len(looked)} look-ups: median {statistics.median(looked):.3f} s, longest {max(looked):.2f} s")
    assert max(looked) < _LONGEST_LOOK_UP
