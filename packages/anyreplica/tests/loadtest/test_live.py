"""Tests of the live display during a run."""

import io
from array import array
from collections import Counter

from rich.console import Console

from anyreplica.load.main import Live
from anyreplica.load.options import read
from anyreplica.load.workers import LiveTick


def ticks(count: int) -> list[LiveTick]:
    """Return `count` ticks of 0.25 s with a hundred calls each, one of which failed."""
    seconds = array("d", [0.002] * 98 + [0.050])
    ends = (0.25 * number for number in range(1, count + 1))
    return [LiveTick(at=end, seconds=seconds, failed=1, replicas=Counter(a=50, b=49)) for end in ends]


def shown(seen: list[LiveTick], *, terminal: bool) -> str:
    """Return what is printed during the run."""
    console = Console(file=(printed := io.StringIO()), width=80, force_terminal=terminal, color_system=None)
    live = Live(console, read(["--duration", "10s"]))
    with live.shown():
        for tick in seen:
            live.add(tick)
    return printed.getvalue()


def test_what_a_terminal_and_a_pipe_see() -> None:
    """A terminal shows all figures and a bar per replica until the end; a pipe gets a line every five seconds."""
    text = shown(ticks(20), terminal=True)
    last = text[text.rindex("/s   p50") - 20 :]
    assert "500/s   p50 2.0 ms   p99 50.0 ms   2,000 done   20 failed" in last
    assert "█" * 30 in last
    assert "1,000" in last
    assert "5 s" in last
    assert last.rstrip().endswith("\x1b[2K")
    begun = LiveTick(at=0.0, seconds=array("d"), failed=0, replicas=Counter())
    assert "p50 –" in shown([begun], terminal=True), "a run that has just begun has no latencies"
    first = "    5 s  2,000 done  500/s  p50 2.0 ms  p99 50.0 ms  20 failed"
    second = "   10 s  4,000 done  500/s  p50 2.0 ms  p99 50.0 ms  40 failed"
    assert shown(ticks(44), terminal=False).splitlines() == [first, second]
