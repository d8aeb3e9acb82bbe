"""Lost nodes and long idle connections, on a Swarm of three managers."""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from conftest import until
from tests.process.test_drain import sent
from tests.swarm import nodes
from tests.swarm.stack import Stack, failures, load

pytestmark = [pytest.mark.needs("nodes"), pytest.mark.long, pytest.mark.timeout(900)]

RATE = 30
"""Requests per second, as in the tests of events."""


@pytest.fixture
def engines(stack: Stack) -> Iterator[dict[int, str]]:
    """The `DOCKER_HOST` of each node.

    Each node has one replica, and all nodes are running again after the test.
    """
    stack.wait("3/3", 240)
    if len(stack.nodes()) < 3:  # Swarm adds a task on an empty node, then removes one of two tasks on a node.
        stack.scale(4)
        stack.scale(3)
    assert len(stack.nodes()) == 3
    engines = nodes.engines()
    yield engines
    for node in engines:
        nodes.plug_in(node)


cut_off = partial(nodes.cut_off, seconds=45)


@pytest.mark.parametrize(
    ("leads", "lose"), [(False, cut_off), (True, nodes.unplug)], ids=["cut_off", "leader_unplugged"]
)
def test_a_node_is_lost(
    stack: Stack,
    engines: dict[int, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lose: Callable[[int], None],
    leads: bool,  # pytest passes it by name
) -> None:
    """Calls to a lost node may fail. When three replicas serve again, no call fails."""
    lost = next(node for node in engines if (node == nodes.leader()) is leads)
    survivor = next(node for node in engines if node != lost)
    monkeypatch.setenv("DOCKER_HOST", engines[survivor])
    with load(f"http://127.0.0.{survivor}:{stack.port}", tmp_path, RATE) as running:
        running.wait_for(5 * RATE)
        lose(lost)
        at = running.seconds
        until(lambda: nodes.is_down(lost), "Swarm reports that the node is down", 90)
        missed = running.seconds
        until(lambda: stack.serving() == 3, "three replicas serve", 90)
        again = running.seconds
        running.wait_for(int((again + 10) * RATE))
        runs = running.stop()
    slow = running.slower_than(1)
    print(
        f"node down after {missed - at:.1f} s, 3/3 after {again - at:.1f} s;",
        f"{sum(run['failed'] for run in runs)} of {sum(run['requests'] for run in runs)} failed: {failures(runs)};",
        f"{len(slow)} took over 1 s, {max(slow, default=0):.1f} s at most",
    )
    assert running.failed(since=again) == []


def test_connections_that_are_idle_for_long(stack: Stack, engines: dict[int, str]) -> None:
    """A replica closes idle connections before the mesh drops them, so that no client gets a reset.

    The mesh of the first node drops idle connections after 100 s instead of 900 s, which is still longer than
    `KEEP_ALIVE_SECONDS`. The mesh of the second node drops them after 20 s, and its clients get the reset.
    """
    nodes.forget_idle_connections(1, 100)
    nodes.forget_idle_connections(2, 20)
    # The mesh keeps connections of earlier tests for the time that was set then, up to 900 s.
    old = {node: nodes.connections(node) for node in (1, 2)}
    with contextlib.ExitStack() as clients:
        good, bad = ([clients.enter_context(kept_client(stack, node)) for _ in range(12)] for node in (1, 2))
        assert [outcome(client) for client in (*good, *bad)] == ["200"] * 24
        assert all(len(nodes.connections(node) - old[node]) == 12 for node in (1, 2))
        until(lambda: not nodes.connections(2) - old[2], "the second node's mesh has dropped the connections", 60)
        assert [outcome(client) for client in bad] == ["reset"] * 12
        until(lambda: not nodes.connections(1) - old[1], "the first node's mesh has dropped the connections", 300)
        assert [outcome(client) for client in good] == ["200"] * 12


def kept_client(stack: Stack, node: int) -> httpx.Client:
    """Return a client that keeps its connection."""
    forever = httpx.Limits(keepalive_expiry=None)
    return httpx.Client(base_url=f"http://127.0.0.{node}:{stack.port}", timeout=30, limits=forever)


def outcome(client: httpx.Client) -> str:
    """Return the status of a client's call, or "reset"."""
    try:
        return str(client.post("/mcp", **sent("take", 0, "modern")).status_code)
    except httpx.TransportError:
        return "reset"
