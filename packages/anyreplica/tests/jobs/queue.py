"""Replicas and workers with one Redis, and helpers that submit jobs and read their status."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from conftest import Server, until
from tests.replicas import KEYS, RedisServer

PACK = "tests.packs.working"
FINISHED = ("completed", "failed", "cancelled")


class Jobs:
    """A client of a replica's `/jobs` routes."""

    def __init__(self, url: str, token: str = "") -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.url = url
        self.client = httpx.Client(base_url=url, verify=False, timeout=30, headers=headers)

    def post(self, job: str, params: dict[str, Any] | None = None, key: str | None = None) -> httpx.Response:
        """Submit a job, with or without an Idempotency-Key."""
        headers = {"Idempotency-Key": key} if key is not None else {}
        return self.client.post("/jobs", json={"job": job, "params": params or {}}, headers=headers)

    def submit(self, job: str, **params: Any) -> str:
        """Submit a job and return its id."""
        reply = self.post(job, params)
        assert reply.status_code == 202, reply.text
        identity: str = reply.json()["id"]
        return identity

    def status(self, identity: str) -> dict[str, Any]:
        """Return a job's status."""
        reply = self.client.get(f"/jobs/{identity}/status")
        assert reply.status_code == 200, reply.text
        status: dict[str, Any] = reply.json()
        return status

    def result(self, identity: str) -> Any:
        """Return the result of a completed job."""
        reply = self.client.get(f"/jobs/{identity}/result")
        assert reply.status_code == 200, reply.text
        return reply.json()["result"]

    def wait(self, identity: str, *states: str, seconds: float = 30) -> dict[str, Any]:
        """Wait until a job is in one of these states, or until it has finished. Return its status.

        The function keeps asking while Redis is unavailable.
        """
        wanted = states or FINISHED

        def arrived() -> bool:
            reply = self.client.get(f"/jobs/{identity}/status")
            assert reply.status_code in (200, 503), reply.text
            return reply.json().get("status") in wanted

        until(arrived, f"the job is {' or '.join(wanted)}", seconds)
        return self.status(identity)


class Queue:
    """A Redis with replicas and workers. Each of them is a process."""

    def __init__(self, folder: Path, redis: RedisServer, **settings: str) -> None:
        self.folder = folder
        self.redis = redis
        self.settings = {
            "MCP_COMPONENTS": PACK,
            "JOBS_URL": redis.url,
            "MCP_REPLICAS": "2",
            "REQUEST_STATE_KEYS": KEYS,
            **settings,
        }
        self.started: list[Server] = []
        self.callers: list[Jobs] = []

    def replica(self, **settings: str) -> Jobs:
        """Start a replica."""
        (made,) = self.replicas(1, **settings)
        return made

    def replicas(self, count: int, **settings: str) -> list[Jobs]:
        """Start this number of replicas."""
        token = settings.get("AUTH_TOKEN", "")
        made = [Jobs(server.url, token) for server in self.start([()] * count, **settings)]
        self.callers += made
        return made

    def worker(self, **settings: str) -> Server:
        """Start a worker."""
        (made,) = self.start([("worker",)], **settings)
        return made

    def start(self, each: list[tuple[str, ...]], ready: bool = True, /, **settings: str) -> list[Server]:
        """Start processes at the same time, each with its arguments. If `ready` is true, wait until they are ready."""
        first = len(self.started)
        for number, arguments in enumerate(each, first):
            log = self.folder / f"server-{number}.log"
            self.started.append(Server(log, *arguments, **{**self.settings, **settings}))
        for server in self.started[first:] if ready else ():
            server.wait_ready()
        return self.started[first:]


@contextlib.contextmanager
def queue(folder: Path, redis: RedisServer, **settings: str) -> Iterator[Queue]:
    """Return a queue that uses a Redis. Its processes end with the block."""
    made = Queue(folder, redis, **settings)
    try:
        yield made
    finally:
        for caller in made.callers:
            caller.client.close()
        for server in made.started:
            if server.process.poll() is None:
                os.killpg(server.process.pid, signal.SIGKILL)
            server.process.wait()


def lines(path: Path) -> list[str]:
    """Return the words that jobs have written to a file."""
    return path.read_text().split() if path.exists() else []


def wait_for_begin(mark: Path) -> None:
    """Wait until a job's code has written its first word. The status "running" comes a little earlier."""
    until(lambda: lines(mark) == ["begun"], "the job's code has begun")
