"""The rate of 1, 2, 3 … replicas, each with the same share of a core.

python -m benchmarks.scaling --replicas 4
"""

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks import interruption
from benchmarks.command import Missing, Run, Script, main
from benchmarks.load import measured
from benchmarks.process import Process, replica
from benchmarks.rounds import Rounds
from benchmarks.sample import Sample
from benchmarks.scaling.quota import Group, NoQuota, groups
from benchmarks.scenarios import SCENARIOS
from benchmarks.study import Column, Table

CONNECTIONS = 16
"""Connections to each replica."""

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
    """A number of replicas."""

    replicas: int

    @property
    def name(self) -> str:
        """Name in JSON."""
        return str(self.replicas)

    @property
    def title(self) -> str:
        """Name in tables."""
        return "1 replica" if self.replicas == 1 else f"{self.replicas} replicas"


def _measure(run: Run) -> list[Table]:
    most = run.given.replicas
    share = _TOGETHER / most
    rounds = Rounds([Case(size) for size in range(1, most + 1)])
    with ExitStack() as stack:
        try:
            limits = stack.enter_context(groups(most))
        except NoQuota as error:
            raise Missing(str(error)) from error
        replicas = [stack.enter_context(_start(run, number)) for number in range(most)]
        for process, group in zip(replicas, limits, strict=True):
            process.wait_ready()
            group.add(process.pid)  # The start was without a limit, because it takes a second of a whole core.
            group.limit(share)
        stack.callback(_unlimited, limits)  # Without a limit the replicas stop at once.
        rounds.measure(run, lambda case: _round(run, replicas[: case.replicas]))

    def efficiency(case: Case) -> Mapping[str, Sequence[float]]:
        return {"efficiency": [100 * ratio / case.replicas for ratio in rounds.ratios(case.name, "1", "rate")]}

    title = f"Replicas with {100 * share:.0f} % of a core each"
    return [Table("scaling", title, _COLUMNS, rounds.rows(efficiency))]


def _start(run: Run, number: int) -> Process:
    return replica("echo", run.machine.server_core, run.folder, REPLICA_NAME=f"replica-{number}")


def _unlimited(limits: Sequence[Group]) -> None:
    for group in limits:
        group.limit(None)


def _round(run: Run, replicas: Sequence[Process]) -> Mapping[str, float]:
    """Call some replicas at the same time and return the figures of one round.

    Raises:
        LoadError: A reply was wrong.
    """
    samples = interruption.run(_samples(run, replicas))
    cpu_seconds = sum(sample.cpu_seconds for sample in samples)
    return {
        "rate": sum(sample.per_second for sample in samples),
        "cpu": 1e6 * cpu_seconds / sum(sample.requests for sample in samples),
        "p50": max(sample.p50_ms for sample in samples),
        "p99": max(sample.p99_ms for sample in samples),
        "memory": sum(process.rss_mb() for process in replicas) / len(replicas),
    }


async def _samples(run: Run, replicas: Sequence[Process]) -> list[Sample]:
    loads = [measured(each.port, _ECHO, CONNECTIONS, run.seconds, each.cpu_seconds) for each in replicas]
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
    description="Start replicas that answer echo calls, and load 1, 2, 3 … of them in turns. The kernel's quota "
    "(cgroups, which usually need root) gives each replica the same share of a core.",
    rounds=(1, 9),
    seconds=(0.5, 1.5),
    measure=_measure,
    options=_options,
)

if __name__ == "__main__":
    sys.exit(main(SCRIPT))
