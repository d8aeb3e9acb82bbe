"""The cost of a lost node behind the edge proxy: a replica in its own network suddenly sends nothing more."""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
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


Ended = tuple[httpx.Response, float]
"""The reply to a call, and the time of its end by `time.monotonic`."""


@dataclass
class Far:
    """A replica on its own node."""

    node: Node
    server: Server


@contextlib.contextmanager
def calling(url: str) -> Iterator[Callable[[dict[str, Any]], Future[Ended]]]:
    """Yield a function that begins a call, on a connection that has already carried another request."""

    def go(posted: dict[str, Any]) -> Ended:
        with httpx.Client(base_url=url, timeout=60) as client:
            client.get("/version")
            reply = client.post("/mcp", **posted)
        return reply, time.monotonic()

    with ThreadPoolExecutor(16) as pool:
        yield lambda posted: pool.submit(go, posted)


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
    """Calls on a lost node fail within 5 s with a JSON-RPC error or are repeated elsewhere; later calls succeed."""
    with calling(edge.url) as begin, httpx.Client(base_url=edge.url, timeout=60) as client:
        repeated = [begin(sent("take", 8, family)) for family in ("legacy", "modern") for _ in range(4)]
        calls = [begin(json_call("report_and_take", 8)) for _ in range(8)]
        until(lambda: running(far.server) + running(near) == 16, "all 16 calls run")
        there = running(far.server)
        assert 4 <= there <= 12
        far.node.vanish()
        lost = time.monotonic()
        for _ in range(20):
            began = time.monotonic()
            reply = client.post("/mcp", json=request("tools/list"), headers=HEADERS)
            assert (reply.status_code, reply.headers["X-Served-By"]) == (200, "replica-1")
            assert time.monotonic() - began < WITHIN
    replies = [call.result()[0] for call in repeated]
    assert [(reply.status_code, reply.headers["X-Served-By"]) for reply in replies] == [(200, "replica-1")] * 8
    failed = [(reply, ended) for reply, ended in (call.result() for call in calls) if reply.status_code != 200]
    assert 1 <= len(failed) <= there
    for reply, ended in failed:
        assert reply.status_code == 502
        assert reply.headers["Retry-After"] == "1"
        assert reply.json()["error"]["message"].startswith("The replica was lost")
        assert ended - lost < WITHIN


def test_a_long_call_outlives_the_drain_of_its_replica(edge: Edge, near: Server) -> None:
    """A long call ends normally while its replica drains, which the proxy does not treat as a lost node."""
    with calling(edge.url) as begin:
        kinds = [(tool, family) for tool in ("take", "report_and_take") for family in ("legacy", "modern")]
        calls = [begin(sent(tool, 8, family)) for tool, family in kinds * 2]
        until(lambda: running(near) >= 3, "three calls run on the near replica")
        near.process.send_signal(signal.SIGTERM)
    replies = [call.result()[0] for call in calls]
    assert [reply.status_code for reply in replies] == [200] * 8
    assert all("took 8 s" in reply.text for reply in replies)
    assert {reply.headers["X-Served-By"] for reply in replies} == {"replica-0", "replica-1"}
    assert near.process.wait(60) == 0
