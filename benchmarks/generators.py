"""The load test beside wrk on the same server, and the client that it is made of beside others.

python -m benchmarks.generators --rounds 20
"""

import argparse
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from importlib.util import find_spec
from statistics import median

from mcp_swarm.loadtest.arguments import positive

from benchmarks.process import Process
from benchmarks.senders import CLIENTS, Figures, Job, client, load_test, wrk
from benchmarks.spread import Spread
from benchmarks.study.command import Missing, Run, Script, main
from benchmarks.study.study import Column, Findings, Row, Table, row_of

AGREE = 0.10
"""Most that the load test's figures may be off wrk's."""

LEAST = 8000.0
"""Requests per second and core that the load test's client must manage, each reply checked."""

_CLIENTS_TIMES = 3
"""A client runs as many times as long as a round of the others."""

_OFFICIAL = 8
"""Most connections of the official client, which takes a second to make fifty."""

_TOOLS = {"slow": "a tool that takes 10 ms", "echo": "echo, as fast as it goes"}
_OURS = "the load test's own"

_FIGURES = [Column("rate", "requests", "/s"), Column("p50", "p50", "ms"), Column("p99", "p99", "ms")]
_NOTE = "The load test counts the making of a connection into the first call over it, wrk doesn't: hence its p99."
_OFF = [Column("rate", "requests/s", "%"), Column("p50", "p50", "%")]
_COSTS = [
    Column("cpu", "CPU per request", "µs", "less", drawn=True),
    Column("most", "requests of a core", "/s", "more"),
]
_CLIENTS_NOTE = "By the CPU time of the client; wrk checks the status only."


@dataclass
class Agreement:
    """What wrk and the load test say of one tool, in turns."""

    tool: str
    wrk: list[Figures] = field(default_factory=list)
    load_test: list[Figures] = field(default_factory=list)

    def off(self, figure: Callable[[Figures], float]) -> float:
        """How much more the load test says, as a share: the median of the rounds, since a machine's speed wanders."""
        pairs = zip(self.load_test, self.wrk, strict=True)
        return median(figure(ours) / figure(theirs) for ours, theirs in pairs) - 1

    @property
    def agrees(self) -> bool:
        """Whether rate and median latency are as near as they have to be."""
        return all(abs(self.off(figure)) <= AGREE for figure in (lambda run: run.rate, lambda run: run.p50))


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds",
        type=positive,
        default=1,
        metavar="S",
        help="seconds of each run, and a third of each client's (default: %(default)s)",
    )
    parser.add_argument(
        "--connections", type=positive, default=50, metavar="N", help="connections (default: %(default)s)"
    )


def _measure(run: Run) -> Findings:
    for program, package in (("wrk", "wrk"), ("taskset", "util-linux")):
        if shutil.which(program) is None:
            raise Missing(f"{program} is not installed: apt-get install {package}")
    packs = "benchmarks.packs.echo,benchmarks.packs.slow"
    settings = {"MCP_COMPONENTS": packs, "REPLICA_NAME": "benchmark"}
    with Process("server", core=run.machine.server_core, folder=run.folder, **settings) as server:
        server.wait_ready()
        url = f"http://127.0.0.1:{server.port}/mcp"
        given, core = run.given, run.machine.load_core
        jobs = {tool: Job(url, tool, given.connections, given.seconds, core, run.folder) for tool in _TOOLS}
        agreements = []
        for tool, job in jobs.items():
            agreement = Agreement(tool)
            agreements.append(agreement)
            for number in range(run.rounds):
                turn = [(wrk, agreement.wrk), (load_test, agreement.load_test)]
                for generator, runs in reversed(turn) if number % 2 else turn:
                    run.step(f"{tool}: {generator.__name__}, round {number + 1} of {run.rounds}")
                    runs.append(generator(job))
        return _findings(agreements, _clients(jobs["echo"], run.step))


def _clients(job: Job, step: Callable[[str], None]) -> dict[str, Figures | None]:
    """What each client costs; None for one that isn't installed."""
    job = replace(job, seconds=_CLIENTS_TIMES * job.seconds)
    found: dict[str, Figures | None] = {}
    step("client: wrk")
    found["wrk"] = wrk(job)
    step("client: the load test's own")
    found[_OURS] = load_test(job)
    for name in CLIENTS:
        step(f"client: {name}")
        found[name] = client(job, name) if find_spec(name) else None
    step("client: the official SDK's")
    found["the official SDK's (--sdk)"] = load_test(replace(job, connections=min(job.connections, _OFFICIAL)), sdk=True)
    return found


def _findings(agreements: list[Agreement], clients: dict[str, Figures | None]) -> Findings:
    rows = [
        _row(f"{agreement.tool}-{name}", f"{_TOOLS[agreement.tool]}: {title}", runs)
        for agreement in agreements
        for name, title, runs in (("wrk", "wrk", agreement.wrk), ("load-test", "load test", agreement.load_test))
    ]
    off = [
        Row(
            agreement.tool,
            _TOOLS[agreement.tool],
            {
                name: Spread.of([100 * agreement.off(figure)])
                for name, figure in (("rate", lambda run: run.rate), ("p50", lambda run: run.p50))
            },
        )
        for agreement in agreements
    ]
    costs = [
        row_of(name, name, {"cpu": [found.cpu_us], "most": [1e6 / found.cpu_us]})
        if found
        else Row(name, name, skipped="not installed")
        for name, found in clients.items()
    ]
    tables = [
        Table("generators", "wrk and the load test, in turns", _FIGURES, rows, _NOTE),
        Table("off", "How far the load test is off, round against round", _OFF, off),
        Table("clients", "What it costs to send a request and to check the reply", _COSTS, costs, _CLIENTS_NOTE),
    ]
    ours = clients[_OURS]
    most = 1e6 / ours.cpu_us if ours else 0
    missed = [
        f"{_TOOLS[agreement.tool]}: further off wrk's figures than {AGREE:.0%}"
        for agreement in agreements
        if not agreement.agrees
    ]
    if most < LEAST:
        missed.append(f"the load test's own client sends {most:,.0f} requests/s from one core, not {LEAST:,.0f}")
    furthest = max(abs(spread.median) for row in off for spread in row.figures.values())
    sentence = (
        f"The load test's rate and median latency are at most {furthest:.1f} % off wrk's, though it checks every reply."
    )
    meaning = f"{sentence} One core of it could send {most:,.0f} requests/s; its verdict says when it was the limit."
    return Findings(tables, sentence, meaning, versions={"httptools": version("httptools")}, missed=missed)


def _row(name: str, title: str, runs: list[Figures]) -> Row:
    columns = ("rate", "p50", "p99")
    return row_of(name, title, {column: [getattr(run, column) for run in runs] for column in columns})


SCRIPT = Script(
    name="generators",
    title="Whether the load test tells the truth",
    claim="The load test finds what wrk finds, and is seldom the limit itself.",
    description="Loads one replica, on a core of its own, with wrk and with test_swarm_load.py in turns, and compares "
    "what they say; then sees what each client of HTTP costs, each reply checked.",
    rounds=(1, 20),
    steps=lambda _, rounds: rounds * 2 * len(_TOOLS) + len(CLIENTS) + 3,
    measure=_measure,
    options=_options,
    targets=True,
)


if __name__ == "__main__":
    sys.exit(main(SCRIPT))
