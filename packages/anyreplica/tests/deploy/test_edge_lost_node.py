"""The cost of a lost node behind the edge proxy: a replica in its own network suddenly sends nothing more."""

import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from conftest import Server, StartServer, until
from tests.calls import HEADERS, call, request, text
from tests.deploy.network import Network, Node, only_root
from tests.deploy.test_edge import Edge
from tests.process.test_drain import sent

pytestmark = [pytest.mark.system, pytest.mark.needs("haproxy"), only_root]

WITHIN = 5.0
"""Maximum time until a call on a lost node fails, in seconds."""


@dataclass
class Far:
    """A replica on its own node."""

    node: Node
    server: Server


@dataclass
class Outcome:
    """The reply to a call, and the time of its end by `time.monotonic`."""

    reply: httpx.Response | None = None
    ended: float = 0.0


@dataclass
class Calls:
    """Calls in threads, each on a connection that has already carried another request."""

    url: str
    outcomes: list[Outcome] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)

    def begin(self, **posted: Any) -> None:
        """Begin a call."""
        outcome = Outcome()

        def go() -> None:
            with httpx.Client(base_url=self.url, timeout=60) as client:
                client.get("/version")
                outcome.reply = client.post("/mcp", **posted)
            outcome.ended = time.monotonic()

        self.outcomes.append(outcome)
        self.threads.append(threading.Thread(target=go))
        self.threads[-1].start()

    def end(self) -> None:
        """Wait for all calls."""
        for thread in self.threads:
            thread.join()


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Far]:
    """A replica on its own node, ready to serve."""
    with Network(1, {}) as network:
        node = network.nodes[1]
        settings = {"MCP_COMPONENTS": "server,tests.packs.timed", "REPLICA_NAME": "replica-0"}
        server = Server(tmp_path / "far.log", within=node.within, MCP_HOST="0.0.0.0", **settings)
        server.url = f"http://{node.address}:{server.port}"
        try:
            server.wait_ready()
            yield Far(node, server)
        finally:
            server.stop(signal.SIGKILL)


@pytest.fixture
def near(start_server: StartServer) -> Server:
    """A second replica, which is not lost."""
    return start_server(MCP_COMPONENTS="server,tests.packs.timed", REPLICA_NAME="replica-1", DRAIN_SECONDS="2")


@pytest.fixture
def edge(far: Far, near: Server, tmp_path: Path) -> Iterator[Edge]:
    """A proxy in front of both replicas. The proxy may call the tool `take` twice."""
    made = Edge(tmp_path, [far.server, near], hosts=[far.node.address, "127.0.0.1"], repeats="take")
    try:
        made.wait_ready()
        yield made
    finally:
        made.stop()


def running(server: Server) -> int:
    """Return the number of tool calls that a replica has begun."""
    return int(text(call(server.url, "begun", {})))


def json_call(tool: str, seconds: float) -> dict[str, Any]:
    """Return the arguments of a POST request for a call that gets a JSON reply."""
    return {"json": request("tools/call", {"name": tool, "arguments": {"seconds": seconds}}), "headers": HEADERS}


def test_calls_on_a_lost_node_fail_soon_or_run_on_another_replica(edge: Edge, far: Far, near: Server) -> None:
    """A call on a lost node fails within 5 s, unless the proxy may repeat it on another replica.

    The error is a JSON-RPC error. Later calls do not fail.
    """
    calls, repeated = Calls(edge.url), Calls(edge.url)
    for family in ("legacy", "modern"):
        for _ in range(4):
            repeated.begin(**sent("take", 8, family))
    for _ in range(8):
        calls.begin(**json_call("report_and_take", 8))
    until(lambda: running(far.server) + running(near) == 16, "all 16 calls run")
    there = running(far.server)
    assert 4 <= there <= 12
    far.node.vanish()
    lost = time.monotonic()
    with httpx.Client(base_url=edge.url, timeout=60) as client:
        for _ in range(20):
            began = time.monotonic()
            reply = client.post("/mcp", json=request("tools/list"), headers=HEADERS)
            assert (reply.status_code, reply.headers["X-Served-By"]) == (200, "replica-1")
            assert time.monotonic() - began < WITHIN
    calls.end()
    repeated.end()
    replies = [outcome.reply for outcome in repeated.outcomes]
    assert [reply and (reply.status_code, reply.headers["X-Served-By"]) for reply in replies] == [
        (200, "replica-1")
    ] * 8
    failed = [outcome for outcome in calls.outcomes if outcome.reply and outcome.reply.status_code != 200]
    assert 1 <= len(failed) <= there
    for outcome in failed:
        assert outcome.reply is not None
        assert outcome.reply.status_code == 502
        assert outcome.reply.headers["Retry-After"] == "1"
        assert outcome.reply.json()["error"]["message"].startswith("The replica was lost")
        assert outcome.ended - lost < WITHIN


def test_a_long_call_outlives_the_drain_of_its_replica(edge: Edge, near: Server) -> None:
    """A long call ends normally while its replica drains.

    The replica reports that it is not ready, and then stops listening. The proxy does not treat this as a lost node.
    """
    calls = Calls(edge.url)
    for tool in ("take", "report_and_take"):
        for family in ("legacy", "modern"):
            for _ in range(2):
                calls.begin(**sent(tool, 8, family))
    until(lambda: running(near) >= 3, "three calls run on the near replica")
    near.process.send_signal(signal.SIGTERM)
    calls.end()
    assert [outcome.reply and outcome.reply.status_code for outcome in calls.outcomes] == [200] * 8
    assert all(outcome.reply and "took 8 s" in outcome.reply.text for outcome in calls.outcomes)
    assert {outcome.reply.headers["X-Served-By"] for outcome in calls.outcomes if outcome.reply} == {
        "replica-0",
        "replica-1",
    }
    assert near.process.wait(60) == 0
