"""What long jobs cost and carry: rate, latency, memory in Redis, and that each is done once.

python -m benchmarks.jobs --rounds 5
"""

import argparse
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from mcp_swarm.loadtest.arguments import positive
from mcp_swarm.loadtest.latency import percentile

from benchmarks import interruption
from benchmarks.job_fleet import Fleet, RedisServer, serving
from benchmarks.job_phases import CALLERS, latencies, once, throughput, waiting
from benchmarks.results import Figure
from benchmarks.spread import Spread
from benchmarks.study.command import Missing, Run, Script, main
from benchmarks.study.study import Column, Findings, Row, Table

STATUS_MS = 3.0
"""Most that a look at a job's status may take, at the median."""

_COLUMNS = [Column("figure", "measured"), Column("target", "at most")]
_WARM_UP = 100
_PHASES = 2
"""In each round."""


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    rounds: int
    replicas: int
    workers: int
    jobs: int
    """Of a round, submitted and done as fast as it goes."""
    calls: int
    """Of a round, for the latency of each kind."""
    waiting: int
    """Jobs that wait in Redis."""
    submitters: int
    each: int
    """Jobs of each submitter."""


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--replicas", type=int, choices=(1, 2), default=2, help="replicas (default: %(default)s)")
    parser.add_argument("--workers", type=positive, default=2, metavar="N", help="workers (default: %(default)s)")


def _plan(given: argparse.Namespace, rounds: int) -> Plan:
    if given.quick:
        return Plan(rounds, given.replicas, given.workers, 100, 200, waiting=200, submitters=10, each=10)
    return Plan(rounds, given.replicas, given.workers, 1_000, 500, waiting=2_000, submitters=50, each=100)


def _measure(run: Run) -> Findings:
    if shutil.which("redis-server") is None:
        raise Missing("redis-server is not installed: apt-get install redis-server")
    plan = _plan(run.given, run.rounds)
    memory = _waiting(plan, run.folder, run.step)
    return _findings(plan, _working(plan, run.folder, run.step) + memory)


def _waiting(plan: Plan, folder: Path, step: Callable[[str], None]) -> list[Figure]:
    """What waiting jobs take in Redis, while there is no worker."""
    step(f"{plan.waiting:,} jobs that wait")
    with _redis(folder) as redis_server, serving(folder, redis_server, 1, workers=0) as fleet:
        # With the first ones come connections and scripts, which are no job's.
        interruption.run(waiting(fleet.ports[0], _WARM_UP))
        before = redis_server.used_memory()
        ids = interruption.run(waiting(fleet.ports[0], plan.waiting))
        total = (redis_server.used_memory() - before) / len(ids)
        own = redis_server.memory_of(ids) / len(ids)
    title = f"a waiting job in Redis, of the memory that {plan.waiting:,} take"
    return [
        Figure.of("waiting", title, "bytes", [total], None, ""),
        Figure.of("waiting-keys", "of this in keys of its own", "bytes", [own], None, ""),
    ]


def _working(plan: Plan, folder: Path, step: Callable[[str], None]) -> list[Figure]:
    """What is measured while workers work."""
    step("start")
    with _redis(folder) as redis_server:
        with serving(folder, redis_server, plan.replicas, plan.workers) as fleet:
            interruption.run(throughput(fleet.ports, _WARM_UP))
            rounds = [
                _round(plan, fleet, step, f"round {number + 1} of {plan.rounds}") for number in range(plan.rounds)
            ]
            step(f"{plan.submitters} submitters, {plan.each} jobs each")
            seconds = interruption.run(once(fleet.ports, plan.submitters, plan.each))
        counters = redis_server.counters()  # when the workers have ended, so that nothing comes after it
    expected = plan.submitters * plan.each
    wrong = abs(expected - len(counters)) + sum(value != 1 for value in counters)
    keyed = f"{plan.submitters} submitters × {plan.each} jobs, each with an Idempotency-Key"

    def of_rounds(name: str, title: str, unit: str = "ms", target: float | None = None) -> Figure:
        return Figure.of(name, title, unit, [figures[name] for figures in rounds], target, "")

    return [
        of_rounds(
            "rate", f"jobs of {CALLERS} callers through {_count(plan.workers, 'worker')}, to the result", "jobs/s"
        ),
        of_rounds("workers", "CPU time of the workers for each"),
        of_rounds("replicas", "CPU time of the replicas for each, with the looks for its result"),
        of_rounds("submit-p50", "submit (`POST /jobs`), p50"),
        of_rounds("submit-p99", "submit, p99"),
        of_rounds("status-p50", "status (`GET /jobs/{id}/status`), p50", target=STATUS_MS),
        of_rounds("status-p99", "status, p99"),
        of_rounds("alone-p50", "a job alone, from its submission to its result, p50"),
        Figure.of("once-seconds", f"{keyed}, to the last result", "s", [seconds], None, ""),
        Figure.of("once", f"of these {expected:,}: lost, or done twice", "jobs", [wrong], 0, ""),
    ]


def _round(plan: Plan, fleet: Fleet, step: Callable[[str], None], title: str) -> dict[str, float]:
    """The figures of one round: jobs per second, and milliseconds."""
    step(f"{title}: {plan.jobs:,} jobs")
    before = fleet.cpu_seconds()
    rate = interruption.run(throughput(fleet.ports, plan.jobs))
    workers, replicas = (1000 * (now - then) / plan.jobs for now, then in zip(fleet.cpu_seconds(), before, strict=True))
    step(f"{title}: latency of {plan.calls:,} calls")
    calls = interruption.run(latencies(fleet.ports[0], plan.calls))
    return {"rate": rate, "workers": workers, "replicas": replicas} | {
        f"{name}-p{percent}": 1000 * percentile(took, percent) for name, took in calls.items() for percent in (50, 99)
    }


@contextmanager
def _redis(folder: Path) -> Iterator[RedisServer]:
    with RedisServer(folder) as server:
        server.wait_ready()
        yield server


def _findings(plan: Plan, figures: list[Figure]) -> Findings:
    note = (
        f"Redis, {_count(plan.replicas, 'replica')}, {_count(plan.workers, 'worker')} and the load share the cores. "
        f"A round has {plan.jobs:,} jobs and {plan.calls:,} calls of each kind; what they do is count to 100."
    )
    table = Table("jobs", "Long jobs", _COLUMNS, [_row(figure) for figure in figures], note)
    rate, wrong, status, size = (table.median(name, "figure") for name in ("rate", "once", "status-p50", "waiting"))
    sentence = (
        f"{_count(plan.workers, 'worker')} carried {rate or 0:.0f} jobs a second, a look at a status took "
        f"{status or 0:.1f} ms, and of {plan.submitters * plan.each:,} jobs {wrong or 0:.0f} were lost or done twice."
    )
    meaning = (
        f"{sentence} A job is for what takes seconds: what takes milliseconds is better a plain tool. A caller that "
        "got no reply may send its submission again with the same Idempotency-Key. Each job that waits takes "
        f"{size or 0:,.0f} bytes of Redis. What a dying worker or a lost Redis costs is shown by tests, not here."
    )
    missed = [f"{figure.title}: more than {figure.target:g} {figure.unit}" for figure in figures if figure.met is False]
    return Findings([table], sentence, meaning, versions={"pydocket": version("pydocket")}, missed=missed)


def _row(figure: Figure) -> Row:
    figures = {"figure": figure.value} if figure.value else {}
    if figure.target is not None:
        figures["target"] = Spread.of([figure.target])
    return Row(figure.name, f"{figure.title}, {figure.unit}", figures, failure=figure.failure)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


SCRIPT = Script(
    name="jobs",
    title="Long jobs",
    claim="Jobs are accepted at once by any replica, and each is done once.",
    description="Starts a Redis, replicas and workers on private ports of 127.0.0.1, submits long jobs over POST "
    "/jobs, and measures: jobs per second from their submission to their result, latency of a submission and of a look "
    "at the status, what a waiting job takes in Redis, and whether each of many jobs, submitted by many at once with "
    "an Idempotency-Key, is done once. Every result is checked.",
    rounds=(1, 5),
    steps=lambda _, rounds: 3 + rounds * _PHASES,
    measure=_measure,
    options=_options,
    pinned=False,
    targets=True,
)


if __name__ == "__main__":
    sys.exit(main(SCRIPT))
