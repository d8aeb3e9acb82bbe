"""The cost of long jobs: rate, latency, memory in Redis, and a count of lost and repeated jobs.

python -m benchmarks.jobs --rounds 5
"""

import sys
from collections import defaultdict
from collections.abc import Sequence

from anyreplica.load.latency import percentile
from benchmarks import interruption
from benchmarks.command import Run, Script, main
from benchmarks.jobs.fleet import Fleet, serving
from benchmarks.jobs.phases import CALLERS, latencies, once, throughput, waiting
from benchmarks.study import Column, Row, Table

REPLICAS = WORKERS = 2

TITLES = {
    "rate": f"jobs of {CALLERS} callers through {WORKERS} workers, up to the result, jobs/s",
    "workers": "CPU time of the workers per job, ms",
    "replicas": "CPU time of the replicas per job, with the requests for its result, ms",
    "submit-p50": "submit (`POST /jobs`), p50, ms",
    "submit-p99": "submit, p99, ms",
    "status-p50": "status (`GET /jobs/{id}/status`), p50, ms",
    "status-p99": "status, p99, ms",
    "alone-p50": "one job alone, from submission to result, p50, ms",
}
"""Titles of the figures that each round has."""

_TARGETS = {"status-p50": 3.0}
_COLUMNS = [Column("figure", "measured"), Column("target", "at most", limits="figure")]
_WARM_UP = 100


def _measure(run: Run) -> list[Table]:
    jobs, calls, waiting_jobs, submitters, each = (100, 200, 200, 10, 10) if run.quick else (1_000, 500, 2_000, 50, 100)
    memory = _waiting(run, waiting_jobs)
    run.step("start")
    with serving(run.folder, REPLICAS, WORKERS) as fleet:
        rows = [*_working(run, fleet, jobs, calls), *_once(run, fleet, submitters, each), memory]
    return [Table("jobs", "Long jobs", _COLUMNS, rows)]


def _waiting(run: Run, jobs: int) -> Row:
    """Measure the memory that waiting jobs take in Redis while no worker runs."""
    run.step(f"{jobs:,} waiting jobs")
    with serving(run.folder, replicas=1, workers=0) as fleet:
        # The first jobs create connections and scripts, which also take memory.
        interruption.run(waiting(fleet.ports[0], _WARM_UP))
        before = fleet.redis.used_memory()
        interruption.run(waiting(fleet.ports[0], jobs))
        total = (fleet.redis.used_memory() - before) / jobs
    return _row("waiting", f"a waiting job in Redis, mean of {jobs:,}, bytes", [total])


def _working(run: Run, fleet: Fleet, jobs: int, calls: int) -> list[Row]:
    """Measure jobs while workers run."""
    rounds: dict[str, list[float]] = defaultdict(list)
    interruption.run(throughput(fleet.ports, _WARM_UP))
    for number in range(1, run.rounds + 1):
        run.step(f"round {number} of {run.rounds}")
        for name, value in _round(fleet, jobs, calls).items():
            rounds[name].append(value)
    return [_row(name, title, rounds[name], _TARGETS.get(name)) for name, title in TITLES.items()]


def _round(fleet: Fleet, jobs: int, calls: int) -> dict[str, float]:
    """Return the figures of one round: jobs per second, and milliseconds."""
    before = fleet.cpu_seconds()
    rate = interruption.run(throughput(fleet.ports, jobs))
    workers, replicas = (1000 * (now - then) / jobs for now, then in zip(fleet.cpu_seconds(), before, strict=True))
    took = interruption.run(latencies(fleet.ports[0], calls))
    return {"rate": rate, "workers": workers, "replicas": replicas} | {
        f"{name}-p{percent}": 1000 * percentile(seconds, percent)
        for name, seconds in took.items()
        for percent in (50, 99)
    }


def _once(run: Run, fleet: Fleet, submitters: int, each: int) -> list[Row]:
    """Count the jobs that are lost or run twice."""
    expected = submitters * each
    run.step(f"{submitters} submitters, {each} jobs each")
    seconds = interruption.run(once(fleet.ports, submitters, each))
    for worker in fleet.workers:
        worker.stop()  # No counter changes afterwards.
    counters = fleet.redis.counters()
    wrong = abs(expected - len(counters)) + sum(value != 1 for value in counters)
    keyed = f"{submitters} submitters × {each} jobs, each with an Idempotency-Key"
    return [
        _row("once-seconds", f"{keyed}, up to the last result, s", [seconds]),
        _row("once", f"of these {expected:,} jobs: lost or run twice", [wrong], 0),
    ]


def _row(name: str, title: str, values: Sequence[float], target: float | None = None) -> Row:
    return Row.of(name, title, {"figure": values, "target": [] if target is None else [target]})


SCRIPT = Script(
    name="jobs",
    description="Start a Redis, two replicas and two workers, submit long jobs over POST /jobs, and measure: jobs per "
    "second up to the result, latency of a submission and of a status request, memory of a waiting job in Redis, and "
    "whether each of many jobs runs exactly once when many callers submit with an Idempotency-Key. Every result is "
    "checked.",
    rounds=(1, 5),
    seconds=(1, 1),
    packages=("pydocket",),
    measure=_measure,
    pinned=False,
)


if __name__ == "__main__":
    sys.exit(main(SCRIPT))
