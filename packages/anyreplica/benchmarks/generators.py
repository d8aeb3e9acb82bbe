"""The load test compared with wrk on the same server.

python -m benchmarks.generators --rounds 20
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from benchmarks.command import Run, Script, main, need
from benchmarks.process import replica
from benchmarks.rounds import Rounds
from benchmarks.senders import Job, load_test, wrk
from benchmarks.study import Column, Row, Table

DIFFERENCE = 10.0
"""Largest allowed difference between the load test's figures and wrk's, in percent."""
CPU_US = 125.0
"""Largest allowed CPU time of the load test per request: one core can send 8,000 requests per second."""

_FIGURES = [
    Column("rate", "requests", "/s"),
    Column("p50", "p50", "ms"),
    Column("p99", "p99", "ms"),
]
_TARGETS = [Column("figure", "measured"), Column("target", "at most", limits="figure")]


@dataclass(frozen=True)
class Case:
    """A tool and a generator."""

    tool: str
    title: str
    generator: Callable[[Job], dict[str, float]]

    @property
    def name(self) -> str:
        """Name in JSON."""
        return f"{self.tool}-{self.generator.__name__}"


_TOOLS = {"slow": "a tool that takes 10 ms", "echo": "echo, as fast as possible"}
CASES = [
    Case(tool, f"{title}: {name}", generator)
    for tool, title in _TOOLS.items()
    for name, generator in (("wrk", wrk), ("load test", load_test))
]


def _measure(run: Run) -> list[Table]:
    need("wrk", "wrk")
    need("taskset", "util-linux")
    rounds = Rounds(CASES)
    packs = "benchmarks.packs.echo,benchmarks.packs.slow"
    with replica("echo", run.machine.server_core, run.folder, MCP_COMPONENTS=packs) as server:
        server.wait_ready()
        url, core = f"http://127.0.0.1:{server.port}/mcp", run.machine.load_core

        seconds = max(1, round(run.seconds))
        rounds.measure(run, lambda case: case.generator(Job(url, case.tool, seconds, core, run.folder)))
    return [Table("generators", "wrk and the load test, in turns", _FIGURES, rounds.rows()), _targets(rounds)]


def _targets(rounds: Rounds[Case]) -> Table:
    """Return the difference between the generators, as the median over the rounds, and the load test's CPU time."""
    rows = []
    for tool, title in _TOOLS.items():
        for column in ("rate", "p50"):
            if ratios := rounds.ratios(f"{tool}-load_test", f"{tool}-wrk", column):
                off = [100 * abs(median(ratios) - 1)]
                figures = {"figure": off, "target": [DIFFERENCE]}
                rows.append(Row.of(f"{tool}-{column}", f"{title}: difference of {column}, %", figures))
    if cpu := rounds.values["echo-load_test"]["cpu"]:
        rows.append(Row.of("cpu", "CPU time of the load test per request, µs", {"figure": cpu, "target": [CPU_US]}))
    return Table("targets", "Difference between the load test and wrk", _TARGETS, rows)


SCRIPT = Script(
    name="generators",
    description="Load one replica, on one core, with wrk and with test_swarm_load.py in turns, and compare the figures "
    "that both report.",
    rounds=(1, 20),
    seconds=(1, 1),
    packages=("httptools",),
    measure=_measure,
)


if __name__ == "__main__":
    sys.exit(main(SCRIPT))
