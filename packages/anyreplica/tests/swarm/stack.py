"""The stack as an operator uses it: deployed by `make deploy` and observed with the docker command."""

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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from conftest import ROOT, environment, until
from tests.template.test_image import docker

NAME = "anyreplica-test"
SERVICE = f"{NAME}_mcp"
IMAGE = "anyreplica-test"
"""Name of the images; the tags are the targets of `tests/swarm/Dockerfile`."""


class Stack:
    """The deployed stack.

    Args:
        name: name of the stack.
        settings: environment variables for `stack.yml`.
    """

    def __init__(self, name: str = NAME, **settings: str) -> None:
        self.name = name
        self.service = f"{name}_mcp"
        self.port = settings.get("PORT", os.environ.get("SWARM_PORT", "8150"))
        shared = "PORT" not in settings
        self.url = os.environ.get("SWARM_URL", "") if shared else ""
        self.url = self.url or f"http://127.0.0.1:{self.port}"
        # Nodes of the tests cannot pull images.
        services = {"REDIS_IMAGE": f"{IMAGE}:services", "EDGE_IMAGE": f"{IMAGE}:services"}
        self.settings = {"PORT": self.port, "MCP_COMPONENTS": "server,timed", **services, **settings}

    def make(self, target: str, *variables: str, ok: bool = True) -> str:
        """Run a make target and return its output. The target must succeed, or with `ok=False` it must fail."""
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
        """Deploy one of the images and return the output."""
        return self.make("deploy", f"IMAGE={IMAGE}:{tag}", *variables, ok=ok)

    def replicas(self) -> str:
        """Return the number of running and of wanted replicas, as `3/3`."""
        return docker("service", "ls", "--filter", f"name={self.service}", "--format", "{{.Replicas}}", check=False)

    def serving(self) -> int:
        """Return the number of tasks that run and should run.

        The number of `replicas` may include tasks of a node that is down, which Swarm still counts as running.
        """
        form = ["--filter", "desired-state=running", "--format", "{{.CurrentState}}"]
        return docker("service", "ps", *form, self.service, check=False).count("Running")

    def nodes(self) -> set[str]:
        """Return the nodes that have a replica."""
        return set(
            docker("service", "ps", "--filter", "desired-state=running", "--format", "{{.Node}}", self.service).split()
        )

    def scale(self, replicas: int) -> None:
        """Scale to this number of replicas, and wait until they run."""
        docker("service", "scale", "--detach", f"{self.service}={replicas}")
        self.wait(f"{replicas}/{replicas}", 120)

    def show_logs(self, *services: str) -> None:
        """Print the logs of some services. pytest shows them if the test fails."""
        for service in services:
            subprocess.run(["docker", "service", "logs", "--timestamps", f"{self.name}_{service}"], check=False)

    def images(self) -> set[str]:
        """Return the images of the running tasks, without the content part of their tags."""
        form = ["--filter", "desired-state=running", "--format", "{{.Image}}"]
        return set(re.findall(r"^(.+)-[0-9a-f]{12}$", docker("service", "ps", *form, self.service), re.MULTILINE))

    def update_state(self) -> str:
        """Return the state of the last update: `completed`, `rollback_completed` …"""
        form = "{{if .UpdateStatus}}{{.UpdateStatus.State}}{{end}}"
        return docker("service", "inspect", "--format", form, self.service)

    def wait(self, replicas: str = "3/3", seconds: float = 60) -> float:
        """Wait until this number of replicas runs, and return the duration in seconds."""
        began = time.monotonic()
        until(lambda: self.replicas() == replicas, f"Swarm reports {replicas} replicas", seconds)
        return time.monotonic() - began


class Load:
    """The load test in the background. All kinds of connections have equal shares of the requests per second.

    Args:
        url: URL of the server.
        folder: folder for the results.
        rate: requests per second.
        kinds: policies of connections, as for `--connections`.
        callers: number of callers of each kind.
        call: further options, for example the tool to call; by default, the load test calls `echo`.
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
        """Duration of the load so far, in seconds."""
        return time.monotonic() - self.began

    def wait_for(self, requests: int) -> None:
        """Wait until this number of requests was due by the schedule."""
        end = self.began + 2 + requests / self.rate
        until(lambda: time.monotonic() > end, f"{requests} requests were due", requests / self.rate + 30)

    def stop(self) -> list[dict[str, Any]]:
        """Stop the load, and return the figures for each kind of connections. pytest shows the totals with `-rP`."""
        for process in self._processes:
            process.send_signal(signal.SIGINT)
        for process in self._processes:
            process.wait(60)
        runs = [json.loads(file.read_text()) for file in self._files]
        print(f"{sum(run['failed'] for run in runs)} of {sum(run['requests'] for run in runs)} requests failed")
        return runs

    def served(self, since: float, until_: float) -> Counter[str]:
        """Return the number of requests per replica that were sent between two times, in seconds of the run."""
        return Counter(row["replica"] for row in self._samples() if since <= float(row["begun"]) < until_)

    def failed(self, since: float) -> list[str]:
        """Describe the failed requests that were sent after a time, in seconds of the run."""
        return [
            f"{file.stem.split('-')[0]} connection, {row['begun']} to {row['ended']} s: {row['error']}"
            for file in self._files
            for row in self._samples(file)
            if row["error"] and float(row["begun"]) >= since
        ]

    def errors(self) -> list[str]:
        """Return the errors of all failed requests."""
        return [row["error"] for row in self._samples() if row["error"]]

    def spans_of_failed(self) -> list[list[tuple[float, float]]]:
        """Return begin and end of each failed request, in seconds of its run, for each kind of connections."""
        return [
            [(float(row["begun"]), float(row["ended"])) for row in self._samples(file) if row["error"]]
            for file in self._files
        ]

    def slower_than(self, seconds: float) -> list[float]:
        """Return the durations of all requests that took longer than `seconds`."""
        return [took for row in self._samples() if (took := float(row["ms"]) / 1000) > seconds]

    def took(self, counts: Callable[[float], bool]) -> list[float]:
        """Return the durations in seconds of the requests that count, by the monotonic time of their begin."""
        return [float(row["ms"]) / 1000 for row in self._samples() if counts(self.began + float(row["begun"]))]

    def _samples(self, *files: Path) -> Iterator[dict[str, str]]:
        for file in files or self._files:
            with file.with_suffix(".csv").open() as rows:
                yield from csv.DictReader(rows)

    def kill(self) -> None:
        """Kill the processes of the load."""
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
    """Run a load until the block ends or the load is stopped; all kinds of connections have equal shares."""
    running = Load(url, folder, rate, kinds, callers, call)
    try:
        yield running
    finally:
        running.kill()


HALF_A_SECOND = ("--tool", "take", "--args", '{"seconds": 0.5}')
"""Options for calls that take half a second, so that a few are in flight at any time."""


def assert_lost_only_in_flight(running: Load, seconds: float) -> None:
    """Fail unless calls failed that were in flight when a replica died, or that began at most `seconds` later."""
    spans = running.spans_of_failed()
    assert any(spans), "at least one call that was in flight failed"
    for failed in filter(None, spans):
        died = min(ended for _, ended in failed)
        assert max(begun for begun, _ in failed) < died + seconds


def failures(runs: list[dict[str, Any]]) -> list[Any]:
    """Return the failures of all runs, by kind."""
    return [failure for run in runs for failure in run["failures"]]
