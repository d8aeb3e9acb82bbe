"""What long jobs cost and carry: rate, latency, memory in Redis, and that each is done once.

python -m benchmarks.jobs --rounds 5
"""

import argparse
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from benchmarks import interruption
from benchmarks.job_caller import CallerError
from benchmarks.job_fleet import Fleet, RedisServer, serving
from benchmarks.job_phases import CALLERS, latencies, once, throughput, waiting
from benchmarks.machine import this_machine
from benchmarks.process import ProcessError, stop_all
from benchmarks.progress import progress
from benchmarks.report import cells, table
from benchmarks.results import Figure
from loadtest.arguments import positive
from loadtest.latency import percentile

EXIT_MISSED = 1
EXIT_REFUSED = 2
EXIT_FAILED = 3

STATUS_MS = 3.0
"""Most that a look at a job's status may take, at the median."""

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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    given = _parser().parse_args(arguments)
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    if shutil.which("redis-server") is None:
        errors.print("redis-server is not installed: apt-get install redis-server")
        return EXIT_REFUSED
    interruption.install()
    try:
        figures = _measure(_plan(given), errors)
    except (ProcessError, CallerError) as error:
        errors.print(f"✗ failed: {error}", markup=False)
        return EXIT_FAILED
    finally:
        with interruption.held():
            stop_all()
    command = shlex.join(["python", "-m", "benchmarks.jobs", *(sys.argv[1:] if arguments is None else arguments)])
    sys.stdout.write(_report(command, _plan(given), quick=given.quick, figures=figures))
    return EXIT_MISSED if given.check and any(figure.met is False for figure in figures) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.jobs",
        description="Start a Redis, replicas and workers on private ports of 127.0.0.1, submit long jobs over "
        "POST /jobs, and measure: jobs per second from their submission to their result, latency of a submission and "
        "of a look at the status, what a waiting job takes in Redis, and whether each of many jobs, submitted by many "
        "at once with an Idempotency-Key, is done once. Every result is checked. The report is Markdown.",
        epilog="Exit codes: 0 measured; 1 a target was missed, with --check; 2 wrong arguments, or no redis-server; "
        "3 a process did not start, or gave a wrong reply or none.",
    )
    parser.add_argument("--rounds", type=positive, metavar="N", help="rounds (default: 5; with --quick 1)")
    parser.add_argument("--replicas", type=int, choices=(1, 2), default=2, help="replicas (default: %(default)s)")
    parser.add_argument("--workers", type=positive, default=2, metavar="N", help="workers (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="everything in less than half a minute, with fewer jobs")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a target is missed")
    return parser


def _plan(given: argparse.Namespace) -> Plan:
    if given.quick:
        return Plan(given.rounds or 1, given.replicas, given.workers, 100, 200, waiting=200, submitters=10, each=10)
    return Plan(given.rounds or 5, given.replicas, given.workers, 1_000, 500, waiting=2_000, submitters=50, each=100)


def _measure(plan: Plan, errors: Console) -> list[Figure]:
    with (
        tempfile.TemporaryDirectory(prefix="benchmark-") as name,
        progress(errors, 3 + plan.rounds * _PHASES) as step,
    ):
        folder = Path(name)
        memory = _waiting(plan, folder, step)
        return _working(plan, folder, step) + memory


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


def _report(command: str, plan: Plan, *, quick: bool, figures: Sequence[Figure]) -> str:
    shared = (
        f"Redis, {_count(plan.replicas, 'replica')}, {_count(plan.workers, 'worker')} and the load share the cores."
    )
    figured = f"Medians (least–most) of {_count(plan.rounds, 'round')} with {plan.jobs:,} jobs and {plan.calls:,} calls"
    rough = " Quick: the figures are rough." if quick else ""
    parts = [
        f"```bash\n{command}\n```",
        f"{this_machine().hardware}; {datetime.now(UTC):%Y-%m-%d}.",
        f"{shared} {figured} of each kind.{rough}",
        table(("jobs", "measured", "target", ""), [cells(figure) for figure in figures]),
    ]
    return "\n\n".join(parts) + "\n"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


if __name__ == "__main__":
    sys.exit(main())
