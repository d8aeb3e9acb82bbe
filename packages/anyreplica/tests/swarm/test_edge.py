"""Tests of the edge proxy in a Swarm, deployed by `make deploy OVERLAYS=deploy/edge.yml`.

EDGE_IMAGE names an image with HAProxy that the nodes have or can pull. Its ports must be reachable on 127.0.0.1.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from conftest import until
from tests.calls import HEADERS, request
from tests.swarm import nodes
from tests.swarm.stack import HALF_A_SECOND, NAME, Stack, failures, load
from tests.swarm.test_events import end

pytestmark = [pytest.mark.needs("swarm"), pytest.mark.timeout(900)]

EDGE = 8151
"""Ports of two stacks, which are separate from the shared one."""

RATE = 15
"""Calls per second of each load."""
READS = ("--tool", "add", "--args", '{"a": 1, "b": 2}')
"""Options for calls of a tool that is marked as read-only."""
CUT_OFF_SECONDS = 30
WITHIN_SECONDS = 5.0
"""Maximum time until a call on a lost node fails, in seconds."""
NOTICED_SECONDS = 3.0
"""Maximum time until the proxy stops using a lost node, in seconds: two failed checks, one second apart."""


@contextlib.contextmanager
def running(port: int, *overlays: str) -> Iterator[Stack]:
    """A stack with two replicas, and the edge proxy on a port of each node."""
    stack = Stack(f"{NAME}-{port}", PORT=f"{port + 10}", EDGE_PORT=f"{port}")
    try:
        stack.deploy("good", "REPLICAS=2", f"OVERLAYS={' '.join(overlays)}")
        yield stack
    finally:
        stack.make("undeploy")


@contextlib.contextmanager
def deployed(port: int, *overlays: str) -> Iterator[str]:
    """The URL of the first node's proxy, with a stack of two replicas behind it."""
    with running(port, *overlays):
        yield f"http://127.0.0.1:{port}"


def evenly(url: str) -> bool:
    """Return whether two replicas answer alternately on one connection."""
    body = request("tools/call", {"name": "echo", "arguments": {"message": "hi"}})
    with contextlib.suppress(httpx.HTTPError), httpx.Client(base_url=url, timeout=10) as client:
        answers = [client.post("/mcp", json=body, headers=HEADERS) for _ in range(20)]
        served = Counter(answer.headers.get("X-Served-By") for answer in answers if answer.status_code == 200)
        return sorted(served.values()) == [10, 10]
    return False


@pytest.mark.long
@pytest.mark.usefixtures("stack")
def test_a_replica_that_dies_costs_only_what_was_in_flight_on_it(tmp_path: Path) -> None:
    """When a replica dies, only calls fail that began before its death."""
    with deployed(EDGE, "deploy/edge.yml") as url:
        until(lambda: evenly(url), "the replicas get the same number of requests", 60)
        with load(url, tmp_path, 30, callers=30, call=HALF_A_SECOND) as running:
            running.wait_for(240)
            end(url, 137)
            until(lambda: evenly(url), "the new replica gets half of the requests", 120)
            running.stop()
    spans = running.spans_of_failed()
    assert any(spans), "at least one call that was in flight failed"
    for failed in filter(None, spans):
        assert max(begun for begun, _ in failed) < min(ended for _, ended in failed)


@pytest.mark.slow
@pytest.mark.needs("nodes")
def test_a_lost_node_costs_only_what_ran_on_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a node is lost, calls that are safe to repeat do not fail through another node's proxy.

    The other calls that ran on the lost node fail within 5 s.
    """

    def folder(name: str) -> Path:
        (made := tmp_path / name).mkdir()
        return made

    with running(EDGE, "deploy/edge.yml") as stack:
        engines = nodes.engines()
        # The lost node is not the leader. Otherwise the Swarm could do nothing for half a minute, not even remove this
        # stack.
        lost = max({int(name[-1]) for name in stack.nodes()} - {nodes.leader()})
        survivor = next(node for node in engines if node != lost)
        monkeypatch.setenv("DOCKER_HOST", engines[survivor])
        url = f"http://127.0.0.{survivor}:{EDGE}"
        until(lambda: evenly(url), "the replicas get the same number of requests", 60)
        with (
            load(url, folder("once"), RATE, callers=30, call=HALF_A_SECOND) as once,
            load(url, folder("again"), RATE, call=READS) as again,
        ):
            once.wait_for(5 * RATE)
            nodes.cut_off(lost, CUT_OFF_SECONDS)
            at = once.seconds
            once.wait_for(int(RATE * (at + CUT_OFF_SECONDS)))
            ran_once, read = once.stop(), again.stop()
        until(lambda: once.seconds > at + CUT_OFF_SECONDS + 2, "the node is connected again", 60)
        nodes.plug_in(lost)
    spans = [(begun, ended) for kind in once.spans_of_failed() for begun, ended in kind]
    print(
        f"Calls that the proxy may not repeat: {len(spans)} of {sum(run['requests'] for run in ran_once)} failed,",
        f"after {max((ended - begun for begun, ended in spans), default=0):.1f} s at most: {failures(ran_once)};",
        f"calls that it may repeat: {sum(run['failed'] for run in read)} of",
        f"{sum(run['requests'] for run in read)} failed: {failures(read)};",
        f"the longest call took {max(again.slower_than(0)):.1f} s",
    )
    assert failures(read) == []
    assert all(ended - begun < WITHIN_SECONDS for begun, ended in spans)
    assert all(begun < at + NOTICED_SECONDS for begun, _ in spans), f"cut off at {at:.1f} s: {spans}"
