"""The rate of 1, 2, 3 … replicas, and of one replica with as many processes, each with the same share of a core.

python -m benchmarks.scaling --replicas 4
"""

import argparse
import asyncio
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from benchmarks import interruption
from benchmarks.command import Missing, Run, Script, main
from benchmarks.load import measured
from benchmarks.process import Process, children_of, cpu_seconds_of, pss_mb_of, replica
from benchmarks.rounds import Rounds
from benchmarks.sample import Sample
from benchmarks.scaling.quota import Group, NoQuota, groups
from benchmarks.scenarios import SCENARIOS
from benchmarks.study import Column, Table

CONNECTIONS = 16
"""Connections to each replica, and for each process of a replica."""

_POLL_SECONDS = 0.05

_ECHO = next(scenario for scenario in SCENARIOS if scenario.name == "echo-2026")
_TOGETHER = 0.8
"""Share of a core that all replicas have together. The rest is for the system."""

_COLUMNS = [
    Column("rate", "calls", "/s"),
    Column("efficiency", "efficiency", "%"),
    Column("cpu", "CPU per call", "µs"),
    Column("p50", "p50", "ms"),
    Column("p99", "p99", "ms"),
    Column("memory", "memory", "MB"),
]


@dataclass(frozen=True)
class Case:
    """A number of replicas of one process, or one replica of several processes."""

    replicas: int
    processes: int = 1

    @property
    def name(self) -> str:
        """Name in JSON."""
        return str(self.replicas) if self.processes == 1 else f"workers-{self.processes}"

    @property
    def title(self) -> str:
        """Name in tables."""
        if self.processes > 1:
            return f"1 replica, `WORKERS={self.processes}`"
        return "1 replica" if self.replicas == 1 else f"{self.replicas} replicas"


def _measure(run: Run) -> list[Table]:
    most = run.given.replicas
    share = _TOGETHER / most
    rounds = Rounds([*(Case(size) for size in range(1, most + 1)), Case(1, most)])
    with ExitStack() as stack:
        try:
            limits = stack.enter_context(groups(2 * most))
        except NoQuota as error:
            raise Missing(str(error)) from error
        replicas = [stack.enter_context(_start(run, str(number))) for number in range(most)]
        whole = stack.enter_context(_start(run, "whole", WORKERS=str(most)))
        for process in replicas:
            process.wait_ready()
        _wait_for_all(whole, most)
        pids = [*(process.pid for process in replicas), *children_of(whole.pid)]
        for pid, group in zip(pids, limits, strict=True):
            group.add(pid)  # The start was without a limit, because it takes a second of a whole core.
            group.limit(share)
        stack.callback(_unlimited, limits)  # Without a limit the replicas stop at once.
        rounds.measure(run, lambda case: _round(run, [whole] if case.processes > 1 else replicas[: case.replicas]))

    def efficiency(case: Case) -> Mapping[str, Sequence[float]]:
        size = case.replicas * case.processes
        return {"efficiency": [100 * ratio / size for ratio in rounds.ratios(case.name, "1", "rate")]}

    title = f"Replicas with {100 * share:.0f} % of a core each"
    return [Table("scaling", title, _COLUMNS, rounds.rows(efficiency))]


def _start(run: Run, name: str, **settings: str) -> Process:
    return replica("echo", run.machine.server_core, run.folder, REPLICA_NAME=f"replica-{name}", **settings)


def _wait_for_all(process: Process, processes: int) -> None:
    """Wait until all processes of a replica serve. The metrics of a replica have a sample of each."""
    process.wait_ready()
    while True:
        with urllib.request.urlopen(f"http://127.0.0.1:{process.port}/metrics") as page:
            if page.read().count(b"\nmcp_replica_info{") == processes:
                return
        time.sleep(_POLL_SECONDS)


def _serving(process: Process) -> list[int]:
    """Return the processes of a replica that serve: those of its supervisor, or the only one."""
    return children_of(process.pid) or [process.pid]


def _cpu_seconds(process: Process) -> float:
    return sum(map(cpu_seconds_of, _serving(process)))


def _unlimited(limits: Sequence[Group]) -> None:
    for group in limits:
        group.limit(None)


def _round(run: Run, replicas: Sequence[Process]) -> Mapping[str, float]:
    """Call some replicas at the same time and return the figures of one round. Memory is that of each core.

    Raises:
        LoadError: A reply was wrong.
    """
    samples = interruption.run(_samples(run, replicas))
    cpu_seconds = sum(sample.cpu_seconds for sample in samples)
    pids = {pid for process in replicas for pid in (process.pid, *_serving(process))}
    return {
        "rate": sum(sample.per_second for sample in samples),
        "cpu": 1e6 * cpu_seconds / sum(sample.requests for sample in samples),
        "p50": max(sample.p50_ms for sample in samples),
        "p99": max(sample.p99_ms for sample in samples),
        "memory": sum(map(pss_mb_of, pids)) / sum(len(_serving(process)) for process in replicas),
    }


async def _samples(run: Run, replicas: Sequence[Process]) -> list[Sample]:
    loads = [
        measured(each.port, _ECHO, CONNECTIONS * len(_serving(each)), run.seconds, partial(_cpu_seconds, each))
        for each in replicas
    ]
    return [sample for sample, _ in await asyncio.gather(*loads)]


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--replicas",
        type=int,
        choices=range(2, 17),
        default=4,
        metavar="N",
        help="largest number of replicas, from 2 to 16 (default: %(default)s)",
    )


SCRIPT = Script(
    name="scaling",
    description="Start replicas that answer echo calls, and load 1, 2, 3 … of them in turns, and a replica with as "
    "many processes. The kernel's quota (cgroups, which usually need root) gives each process the same share of a "
    "core.",
    rounds=(1, 9),
    seconds=(0.5, 1.5),
    measure=_measure,
    options=_options,
)

if __name__ == "__main__":
    sys.exit(main(SCRIPT))
