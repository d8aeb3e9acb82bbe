"""The load test beside wrk on the same server, and the client that it is made of beside others.

python -m benchmarks.generators --rounds 20
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks import interruption
from benchmarks.machine import Machine, this_machine
from benchmarks.process import Process, ProcessError, stop_all
from benchmarks.progress import progress
from benchmarks.senders import CLIENTS, Figures, Job, SenderError, client, load_test, wrk
from loadtest.arguments import positive

EXIT_MISSED = 1
EXIT_REFUSED = 2
EXIT_FAILED = 3

AGREE = 0.10
"""Most that the load test's figures may be off wrk's."""

LEAST = 8000.0
"""Requests per second and core that the load test's client must manage, each reply checked."""

_CLIENTS_TIMES = 3
"""A client runs as many times as long as a round of the others."""

_OFFICIAL = 8
"""Most connections of the official client, which takes a second to make fifty."""

_TOOLS = {
    "slow": "a tool that takes 10 ms: the same for every generator, whatever else the machine does",
    "echo": "echo, as fast as it goes: the replica is busy all the time",
}


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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    given = _parser().parse_args(arguments)
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    for program in ("wrk", "taskset"):
        if shutil.which(program) is None:
            errors.print(f"{program} is not installed: apt-get install {program.replace('taskset', 'util-linux')}")
            return EXIT_REFUSED
    machine = this_machine()
    os.sched_setaffinity(0, {machine.load_core})
    interruption.install()
    try:
        agreements, clients = _measure(machine, given, errors)
    except (ProcessError, SenderError) as error:
        errors.print(f"✗ failed: {error}", markup=False)
        return EXIT_FAILED
    finally:
        with interruption.held():
            stop_all()
    met = _show(machine, given, agreements, clients)
    return EXIT_MISSED if given.check and not met else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.generators",
        description="Load one replica, on a core of its own, with wrk and with test_swarm_load.py in turns, and "
        "compare what they say; then see what each client of HTTP costs, each reply checked.",
        epilog=f"Exit codes: 0 measured; 1 the figures differ by more than {AGREE:.0%}, or the load test's client "
        f"can't send {LEAST:,.0f} requests/s from one core, with --check; 2 wrong arguments, or no wrk; "
        "3 a program failed.".replace("%", "%%"),
    )
    parser.add_argument("--rounds", type=positive, default=20, metavar="N", help="rounds (default: %(default)s)")
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
    parser.add_argument("--check", action="store_true", help="exit with 1 when a target is missed")
    return parser


def _measure(
    machine: Machine, given: argparse.Namespace, errors: Console
) -> tuple[list[Agreement], dict[str, Figures | None]]:
    rounds = range(given.rounds)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        folder = Path(name)
        packs = "benchmarks.packs.echo,benchmarks.packs.slow"
        settings = {"MCP_COMPONENTS": packs, "REPLICA_NAME": "benchmark"}
        with (
            Process("server", core=machine.server_core, folder=folder, **settings) as server,
            progress(errors, len(rounds) * 2 * len(_TOOLS) + len(CLIENTS) + 3) as step,
        ):
            server.wait_ready()
            url = f"http://127.0.0.1:{server.port}/mcp"
            jobs = {
                tool: Job(url, tool, given.connections, given.seconds, machine.load_core, folder) for tool in _TOOLS
            }
            agreements = []
            for tool, job in jobs.items():
                agreement = Agreement(tool)
                agreements.append(agreement)
                for number in rounds:
                    turn = [(wrk, agreement.wrk), (load_test, agreement.load_test)]
                    for generator, runs in reversed(turn) if number % 2 else turn:
                        step(f"{tool}: {generator.__name__}, round {number + 1} of {given.rounds}")
                        runs.append(generator(job))
            return agreements, _clients(jobs["echo"], step)


def _clients(job: Job, step: Callable[[str], None]) -> dict[str, Figures | None]:
    """What each client costs; None for one that isn't installed."""
    job = replace(job, seconds=_CLIENTS_TIMES * job.seconds)
    found: dict[str, Figures | None] = {}
    step("client: wrk")
    found["wrk"] = wrk(job)
    step("client: the load test's own")
    found["the load test's own"] = load_test(job)
    for name in CLIENTS:
        step(f"client: {name}")
        found[name] = client(job, name) if find_spec(name) else None
    step("client: the official SDK's")
    found["the official SDK's (--sdk)"] = load_test(replace(job, connections=min(job.connections, _OFFICIAL)), sdk=True)
    return found


def _show(
    machine: Machine, given: argparse.Namespace, agreements: list[Agreement], clients: dict[str, Figures | None]
) -> bool:
    """Print what was found; whether every target is met."""
    console = Console(width=None if sys.stdout.isatty() else 110, highlight=False)
    rounds = f"median of {given.rounds} rounds of {given.seconds} s" if given.rounds > 1 else f"{given.seconds} s"
    console.print(f"{machine}\n{given.connections} connections, {rounds}, in turns\n", soft_wrap=True)
    for agreement in agreements:
        console.print(_TOOLS[agreement.tool])
        table = Table("", "requests/s", "p50 ms", "p99 ms", box=None)
        for name, runs in (("wrk", agreement.wrk), ("load test", agreement.load_test)):
            rate, p50, p99 = (median(getattr(run, figure) for run in runs) for figure in ("rate", "p50", "p99"))
            table.add_row(name, f"{rate:,.0f}", f"{p50:.2f}", f"{p99:.2f}")
        console.print(table)
        rate, p50 = agreement.off(lambda run: run.rate), agreement.off(lambda run: run.p50)
        console.print(f"{_mark(agreement.agrees)} requests/s {rate:+.1%}, p50 {p50:+.1%} (within ±{AGREE:.0%})\n")
    table = Table("client", "CPU µs per request", "requests/s and core", box=None)
    for name, figures in clients.items():
        cells = ("not installed", "") if figures is None else (f"{figures.cpu_us:,.0f}", f"{1e6 / figures.cpu_us:,.0f}")
        table.add_row(name, *cells)
    console.print(table)
    ours = clients["the load test's own"]
    enough = ours is not None and 1e6 / ours.cpu_us >= LEAST
    console.print(f"{_mark(enough)} the load test's own sends {LEAST:,.0f} requests/s from one core, or more")
    return enough and all(agreement.agrees for agreement in agreements)


def _mark(met: bool) -> str:
    return "✓" if met else "✗"


if __name__ == "__main__":
    sys.exit(main())
