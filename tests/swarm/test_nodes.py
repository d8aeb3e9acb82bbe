"""Nodes that are lost, and connections that are idle for long, on a Swarm of three managers."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from conftest import until
from tests.swarm import nodes
from tests.swarm.stack import Stack, failures, load

pytestmark = [pytest.mark.needs("nodes"), pytest.mark.timeout(900)]

RATE = 30
"""Requests per second, as in the tests of events."""


@pytest.fixture
def engines(stack: Stack) -> Iterator[dict[int, str]]:
    """Each node's `DOCKER_HOST`; all nodes are there again afterwards, and the stack is whole."""
    stack.wait("3/3", 240)
    engines = nodes.engines()
    yield engines
    for node in engines:
        nodes.plug_in(node)
    stack.wait("3/3", 240)


def unplugged(node: int) -> None:
    """Without power."""
    nodes.unplug(node)


cut_off = partial(nodes.cut_off, seconds=45)


@pytest.mark.parametrize("lose", [unplugged, cut_off], ids=["unplugged", "cut off"])
@pytest.mark.parametrize("leads", [False, True], ids=["follower", "leader"])
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
        until(lambda: stack.replicas() not in ("3/3", ""), "it is missed", 60)
        missed = running.seconds
        stack.wait("3/3", 120)
        again = running.seconds
        running.wait_for(int((again + 25) * RATE))
        runs = running.stop()
    slow = running.slower_than(1)
    print(
        f"missed after {missed - at:.1f} s, 3/3 after {again - at:.1f} s;",
        f"{sum(run['failed'] for run in runs)} of {sum(run['requests'] for run in runs)} failed: {failures(runs)};",
        f"{len(slow)} took over 1 s, {max(slow, default=0):.1f} s at most",
    )
    assert running.failed(since=again) == 0, failures(runs)
