"""The official clients are asked, and hear changes, while replicas are killed, drained and added."""

import contextlib
import itertools
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import PACKAGE, Server, until
from tests.calls import get
from tests.conformance.test_conformance import HERE, NODE
from tests.replicas import KEYS, RedisServer, RoundRobin

pytestmark = [pytest.mark.needs("node"), pytest.mark.needs("redis"), pytest.mark.alone]

CLIENTS = {
    "Python": [sys.executable, "-m", "tests.conformance.clients.python_client"],
    "TypeScript v1": [str(NODE), str(HERE / "clients" / "v1.mjs")],
    "TypeScript v2": [str(NODE), str(HERE / "clients" / "v2.mjs")],
}
EACH = 334
"""Number of conversations of each client."""
AT_ONCE = 25
PACE = 100
"""Number of conversations that end between two replacements of a replica."""
EXPECTED = {
    "connect": "done",
    "subscribe": "done",
    "greet": "Hello, Ada!",
    "interview": "Ada, Ada, Ada",
    "test_sampling": "LLM response: Paris",
    "hear": "done",
    "end": "done",
}
AWAITING = ("greet", "test_sampling")
"""The steps in which a tool waits for its client with `await`, so that the call is lost with its replica."""
LOST = "The replica that ran this call was lost; send the call again."
DEAF = "error: the client has given its event stream up"
"""The Python client does this after the second broken connection in a session: here, if two of its replicas are killed.
Only a stream that ends as it should resets its count."""
MOST_DEAF = EACH // 20


class Swarm:
    """Replicas behind a proxy. The test replaces them while clients use them."""

    def __init__(self, folder: Path, redis: RedisServer) -> None:
        self._numbers = itertools.count(1)
        self._folder = folder
        self._redis = redis
        self.replicas = [self._start() for _ in range(3)]
        for replica in self.replicas:
            replica.wait_ready()
        self.proxy = RoundRobin([replica.port for replica in self.replicas])

    def _start(self) -> Server:
        number = next(self._numbers)
        return Server(
            self._folder / f"replica-{number}.log",
            REPLICA_NAME=f"replica-{number}",
            MCP_REPLICAS="3",
            REQUEST_STATE_KEYS=KEYS,
            REDIS_URL=self._redis.url,
            HANDSHAKE_SESSIONS="full",
            MCP_COMPONENTS="server,tests.conformance.pack,tests.packs.state,tests.packs.asking",
            DRAIN_SECONDS="1",
            LOG_LEVEL="WARNING",
        )

    def replace_oldest(self, *, killed: bool) -> None:
        """Add a replica, then kill or drain the oldest one. The proxy first stops sending requests to that one.

        A replica is killed at a moment when all its calls wait for their clients, because no server can save a request
        on which a killed process was working.
        """
        added = self._start()
        added.wait_ready()
        oldest = self.replicas.pop(0)
        self.replicas.append(added)
        self.proxy.ports = [replica.port for replica in self.replicas]
        if killed:
            with self.proxy.pausing():
                until(lambda: self.proxy.unanswered == 0, "each request has its response")
                until(lambda: self.of(oldest, "mcp_requests_in_flight") == 0, "its calls wait for their clients")
                oldest.process.kill()
        assert oldest.stop(seconds=60) == (-9 if killed else 0)

    def of(self, replica: Server, metric: str) -> int:
        """Return the value of a metric of a replica."""
        found = re.search(rf"^{metric} (\S+)", get(f"{replica.url}/metrics").text, re.MULTILINE)
        assert found, metric
        return int(float(found[1]))

    def close(self) -> None:
        """Stop all replicas."""
        self.proxy.close()
        for replica in self.replicas:
            replica.stop()


def ended(folder: Path) -> int:
    """Return the number of conversations that have ended."""
    return sum((folder / name).read_text().count("{") for name in CLIENTS)


@pytest.fixture
def swarm(tmp_path: Path) -> Iterator[Swarm]:
    """Three replicas behind a proxy that sends each request to the next one."""
    with RedisServer(tmp_path / "redis.log") as redis:
        swarm = Swarm(tmp_path, redis)
        try:
            yield swarm
        finally:
            swarm.close()


def test_no_conversation_is_lost(swarm: Swarm, tmp_path: Path) -> None:
    """Of 1,000 conversations, only those calls are lost that asked with `await` and whose replica was killed.

    The clients of these calls get an error that says so.
    """
    with contextlib.ExitStack() as stack:
        running = {}
        for name, command in CLIENTS.items():
            output = stack.enter_context((tmp_path / name).open("w"))
            arguments = [*command, f"{swarm.proxy.url}/mcp", str(EACH), str(AT_ONCE)]
            running[name] = subprocess.Popen(arguments, cwd=PACKAGE, stdout=output, stderr=subprocess.STDOUT)
            stack.callback(running[name].kill)
        replaced = Counter[bool]()
        while any(client.poll() is None for client in running.values()):
            killed = replaced[True] <= replaced[False]
            swarm.replace_oldest(killed=killed)
            replaced[killed] += 1
            goal = min(PACE * sum(replaced.values()), EACH * len(CLIENTS))
            until(lambda: ended(tmp_path) >= goal, "further conversations have ended", 120)  # noqa: B023
    lost, deaf = Counter[str](), 0
    for name in CLIENTS:
        conversations = [json.loads(line) for line in (tmp_path / name).read_text().splitlines() if line[:1] == "{"]
        assert len(conversations) == EACH, f"{name} has ended: {(tmp_path / name).read_text()[-2000:]}"
        for number, steps in enumerate(conversations):
            for step, text in steps.items():
                is_lost = step in AWAITING and LOST in text
                is_deaf = (name, step, text) == ("Python", "hear", DEAF)
                lost[name] += is_lost
                deaf += is_deaf
                assert is_lost or is_deaf or text == EXPECTED[step], f"{name}, conversation {number}, {step}: {text}"
    print(f"{len(CLIENTS) * EACH} conversations; {replaced[True]} replicas killed and {replaced[False]} drained.")
    print(f"Calls that were lost with their replica, and their clients were told: {dict(lost)}")
    print(f"Python clients that gave their event stream up: {deaf}")
    assert deaf <= MOST_DEAF
    assert replaced[True] >= 3
    assert replaced[False] >= 3
