"""Nodes that are lost, and connections that are idle for long, on a Swarm of three managers."""

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
    """Each node's `DOCKER_HOST`; each has one replica, and all are there again afterwards."""
    stack.wait("3/3", 240)
    if len(stack.nodes()) < 3:  # Swarm puts a new one where there is none, and takes away where there are two
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
    """Calls of others fail until Swarm has marked it down; from 3/3 on, which takes seconds, none does."""
    lost = next(node for node in engines if (node == nodes.leader()) is leads)
    survivor = next(node for node in engines if node != lost)
    monkeypatch.setenv("DOCKER_HOST", engines[survivor])
    with load(f"http://127.0.0.{survivor}:{stack.port}", tmp_path, RATE) as running:
        running.wait_for(5 * RATE)
        lose(lost)
        at = running.seconds
        until(lambda: nodes.is_down(lost), "Swarm has given it up", 90)
        missed = running.seconds
        until(lambda: stack.serving() == 3, "three replicas", 90)
        again = running.seconds
        running.wait_for(int((again + 10) * RATE))
        runs = running.stop()
    slow = running.slower_than(1)
    print(
        f"missed after {missed - at:.1f} s, 3/3 after {again - at:.1f} s;",
        f"{sum(run['failed'] for run in runs)} of {sum(run['requests'] for run in runs)} failed: {failures(runs)};",
        f"{len(slow)} took over 1 s, {max(slow, default=0):.1f} s at most",
    )
    assert running.failed(since=again) == 0, failures(runs)


def test_connections_that_are_idle_for_long(stack: Stack, engines: dict[int, str]) -> None:
    """Are ended by the replica, long before the mesh forgets them: no client is told of a reset.

    Shown with a mesh that forgets after 100 s rather than 900, still more than `KEEP_ALIVE_SECONDS`; and that it would
    be otherwise, with one that forgets after 20 s.
    """
    nodes.forget_idle_connections(1, 100)
    nodes.forget_idle_connections(2, 20)
    # What earlier tests cut off is remembered for as long as the mesh was told at that time, up to 900 s.
    old = {node: nodes.connections(node) for node in (1, 2)}
    with contextlib.ExitStack() as clients:
        good, bad = ([clients.enter_context(kept_client(stack, node)) for _ in range(12)] for node in (1, 2))
        assert [outcome(client) for client in (*good, *bad)] == ["200"] * 24
        assert all(len(nodes.connections(node) - old[node]) == 12 for node in (1, 2))
        until(lambda: not nodes.connections(2) - old[2], "the second node's mesh has forgotten", 60)
        assert [outcome(client) for client in bad] == ["reset"] * 12
        until(lambda: not nodes.connections(1) - old[1], "the first node's mesh has forgotten", 300)
        assert [outcome(client) for client in good] == ["200"] * 12


def kept_client(stack: Stack, node: int) -> httpx.Client:
    """A client that keeps its connection."""
    forever = httpx.Limits(keepalive_expiry=None)
    return httpx.Client(base_url=f"http://127.0.0.{node}:{stack.port}", timeout=30, limits=forever)


def outcome(client: httpx.Client) -> str:
    """What a client is told when it calls."""
    try:
        return str(client.post("/mcp", **sent("take", 0, "modern")).status_code)
    except httpx.TransportError:
        return "reset"
