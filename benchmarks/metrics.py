"""What counting a call for `/metrics` costs.

python -m benchmarks.metrics
"""

import argparse
import sys
import time
from functools import partial
from importlib.metadata import version

from mcp_swarm.http.access_log import CALLED, PATH_TAKEN, Write
from mcp_swarm.loadtest.arguments import positive
from mcp_swarm.metrics.requests import RequestMetrics
from starlette.types import Scope

from benchmarks.study.command import Run, Script, main
from benchmarks.study.study import Column, Findings, Table, row_of

_SCOPE: Scope = {CALLED: ("tools/call", "echo"), PATH_TAKEN: ("stateless", "fast")}


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--calls", type=positive, default=200_000, metavar="N", help="calls of each round (default: %(default)s)"
    )


def _measure(run: Run) -> Findings:
    """In turns with a line that nobody writes."""
    counting = RequestMetrics(lambda: {"echo": ""}, lambda: False).counting(_nothing)
    cost = []
    for number in range(run.rounds):
        run.step(f"round {number + 1} of {run.rounds}")
        cost.append(_microseconds(counting, run.given.calls) - _microseconds(_nothing, run.given.calls))
    row = row_of("counting", "a call that is counted, beside one that isn't", {"cpu": cost})
    table = Table("counting", "Counting", [Column("cpu", "CPU per call", "µs", "less")], [row])
    sentence = f"Counting costs a call {row.figures['cpu'].median:.1f} µs."
    return Findings([table], sentence, sentence, versions={"prometheus-client": version("prometheus-client")})


def _nothing(identity: str, scope: Scope, status: int, seconds: float) -> None:
    """Write no line."""


def _microseconds(write: Write, calls: int) -> float:
    call = partial(write, "id", _SCOPE, 200, 0.00005)
    began = time.process_time()
    for _ in range(calls):
        call()
    return (time.process_time() - began) / calls * 1e6


SCRIPT = Script(
    name="metrics",
    title="Counting for /metrics",
    claim="Being watched costs a call next to nothing.",
    description="Runs what counts a call, and what doesn't, in this process.",
    rounds=(3, 7),
    steps=lambda _, rounds: rounds,
    measure=_measure,
    options=_options,
)


if __name__ == "__main__":
    sys.exit(main(SCRIPT))
