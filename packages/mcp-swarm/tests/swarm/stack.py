"""The stack as an operator has it: deployed by `make deploy`, seen through the docker command."""

import contextlib
import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conftest import ROOT, environment, until
from tests.template.test_image import docker

NAME = "mcp-swarm-test"
SERVICE = f"{NAME}_mcp"
IMAGE = "mcp-swarm-test"
"""Its tags are the targets of `tests/swarm/Dockerfile`."""


class Stack:
    """The deployed stack; each node's `url` leads to some replica.

    Args:
        settings: environment variables for `stack.yml`.
    """

    def __init__(self, name: str = NAME, **settings: str) -> None:
        self.name = name
        self.service = f"{name}_mcp"
        self.port = settings.get("PORT", os.environ.get("SWARM_PORT", "8150"))
        shared = "PORT" not in settings
        self.url = os.environ.get("SWARM_URL", "") if shared else ""
        self.url = self.url or f"http://127.0.0.1:{self.port}"
        # Nothing can be pulled where the tests run.
        services = {"REDIS_IMAGE": f"{IMAGE}:services", "EDGE_IMAGE": f"{IMAGE}:services"}
        self.settings = {"PORT": self.port, "MCP_COMPONENTS": "tests.sample,timed", **services, **settings}

    def make(self, target: str, *variables: str, ok: bool = True) -> str:
        """What a make target prints; it must succeed, or fail."""
        done = subprocess.run(
            ["make", target, f"STACK={self.name}", "DEPLOY_FLAGS=--resolve-image never", *variables],
            cwd=ROOT,
            env=environment(**self.settings),
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode == 0) is ok, done.stdout + done.stderr
        return done.stdout + done.stderr

    def deploy(self, tag: str, *variables: str, ok: bool = True) -> str:
        """What deploying one of the images prints."""
        return self.make("deploy", f"IMAGE={IMAGE}:{tag}", *variables, ok=ok)

    def replicas(self) -> str:
        """How many replicas run of how many, as `3/3`."""
        return docker("service", "ls", "--filter", f"name={self.service}", "--format", "{{.Replicas}}", check=False)

    def serving(self) -> int:
        """How many tasks run that are to run. Of a node that is down Swarm counts those, too, that ran there."""
        form = ["--filter", "desired-state=running", "--format", "{{.CurrentState}}"]
        return docker("service", "ps", *form, self.service, check=False).count("Running")

    def nodes(self) -> set[str]:
        """The nodes that have a replica."""
        return set(
            docker("service", "ps", "--filter", "desired-state=running", "--format", "{{.Node}}", self.service).split()
        )

    def scale(self, replicas: int) -> None:
        """Have so many replicas."""
        docker("service", "scale", "--detach", f"{self.service}={replicas}")
        self.wait(f"{replicas}/{replicas}", 120)

    def images(self) -> set[str]:
        """The images of the tasks that are to run, without what their tags say of the content."""
        form = ["--filter", "desired-state=running", "--format", "{{.Image}}"]
        return set(re.findall(r"^(.+)-[0-9a-f]{12}$", docker("service", "ps", *form, self.service), re.MULTILINE))

    def update_state(self) -> str:
        """How the last update goes: `completed`, `rollback_completed` …"""
        form = "{{if .UpdateStatus}}{{.UpdateStatus.State}}{{end}}"
        return docker("service", "inspect", "--format", form, self.service)

    def wait(self, replicas: str = "3/3", seconds: float = 60) -> float:
        """Until so many run; returns the seconds that it took."""
        began = time.monotonic()
        until(lambda: self.replicas() == replicas, f"{replicas} replicas run", seconds)
        return time.monotonic() - began


class Load:
    """The load test in the background, by a schedule: so many requests per second over connections of each kind.

    Args:
        kinds: as of `--connections`.
        callers: how many there are of each kind.
        call: more options, as of what is called; an echo without.
    """

    def __init__(
        self, url: str, folder: Path, rate: float, kinds: tuple[str, ...], callers: int, call: tuple[str, ...]
    ) -> None:
        self.began = time.monotonic()
        self.rate = rate
        self._files = [folder / f"{kind}-{time.monotonic_ns()}.json" for kind in kinds]
        self._processes = []
        for kind, file in zip(kinds, self._files, strict=True):
            command = [sys.executable, "test_swarm_load.py", "--url", f"{url}/mcp", "--expect-replicas", "1"]
            load = ["--rate", f"{rate / len(kinds):g}", "--duration", "15m", "--protocol", "mixed"]
            load += ["--concurrent", str(callers), *call]
            result = ["--connections", kind, "--json", str(file), "--csv", str(file.with_suffix(".csv"))]
            self._processes.append(
                subprocess.Popen(
                    [*command, *load, *result], cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, text=True
                )
            )

    @property
    def seconds(self) -> float:
        """How long it has gone on."""
        return time.monotonic() - self.began

    def wait_for(self, requests: int) -> None:
        """Until so many requests were to be sent, by the schedule."""
        end = self.began + 2 + requests / self.rate
        until(lambda: time.monotonic() > end, "the load has been sent", requests / self.rate + 30)

    def stop(self) -> list[dict[str, Any]]:
        """End it; returns the figures of kept and of fresh connections."""
        for process in self._processes:
            process.send_signal(signal.SIGINT)
        for process in self._processes:
            process.wait(60)
        return [json.loads(file.read_text()) for file in self._files]

    def served(self, since: float, until_: float) -> Counter[str]:
        """How many requests each replica has answered that were sent between two seconds of the run."""
        return Counter(row["replica"] for row in self._samples() if since <= float(row["begun"]) < until_)

    def failed(self, since: float) -> int:
        """How many requests failed that were sent after a second of the run."""
        return sum(1 for row in self._samples() if row["error"] and float(row["begun"]) >= since)

    def spans_of_failed(self) -> list[list[tuple[float, float]]]:
        """When each request that failed was begun and when it ended, in seconds of its kind's run; for each kind."""
        return [
            [(float(row["begun"]), float(row["ended"])) for row in self._samples(file) if row["error"]]
            for file in self._files
        ]

    def slower_than(self, seconds: float) -> list[float]:
        """The seconds that each request took that took longer."""
        return [took for row in self._samples() if (took := float(row["ms"]) / 1000) > seconds]

    def _samples(self, *files: Path) -> Iterator[dict[str, str]]:
        for file in files or self._files:
            with file.with_suffix(".csv").open() as rows:
                yield from csv.DictReader(rows)

    def kill(self) -> None:
        """End it regardless."""
        for process in self._processes:
            process.kill()
            process.wait()


@contextlib.contextmanager
def load(
    url: str,
    folder: Path,
    rate: float,
    kinds: tuple[str, ...] = ("keepalive", "fresh"),
    callers: int = 12,
    call: tuple[str, ...] = (),
) -> Iterator[Load]:
    """A load for as long as the block takes, or until it is stopped; each kind of connections has its share."""
    running = Load(url, folder, rate, kinds, callers, call)
    try:
        yield running
    finally:
        running.kill()


HALF_A_SECOND = ("--tool", "take", "--args", '{"seconds": 0.5}')
"""Calls that take long enough for a few to be in flight at any time."""


def failures(runs: list[dict[str, Any]]) -> list[Any]:
    """What failed, by kind."""
    return [failure for run in runs for failure in run["failures"]]
