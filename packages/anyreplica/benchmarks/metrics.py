"""The cost of counting a call for `/metrics`.

python -m benchmarks.metrics
"""

import sys
import time
from functools import partial

from starlette.types import Scope

from anyreplica.features.metrics.feature import RequestMetrics
from anyreplica.http.access_log import Write
from anyreplica.http.request_record import RECORD, new_record
from benchmarks.command import Run, Script, main
from benchmarks.study import Column, Row, Table

_CALLS = 200_000
_RECORD = new_record({})
_RECORD.called, _RECORD.path = ("tools/call", "echo"), ("stateless", "fast")
_SCOPE: Scope = {RECORD: _RECORD}


def _measure(run: Run) -> list[Table]:
    """Measure the counting in turns with a function that does nothing."""
    counting = RequestMetrics(lambda: {"echo": ""}, lambda: False).observer()
    cost = []
    run.step.expect(run.rounds)
    for number in range(1, run.rounds + 1):
        run.step(f"round {number} of {run.rounds}")
        cost.append(_microseconds(counting) - _microseconds(_nothing))
    row = Row.of("counting", "difference between a counted call and a call that is not counted", {"cpu": cost})
    return [Table("counting", "Counting", [Column("cpu", "CPU per call", "µs")], [row])]


def _nothing(identity: str, scope: Scope, status: int, seconds: float) -> None:
    """Write no line."""


def _microseconds(write: Write) -> float:
    call = partial(write, "id", _SCOPE, 200, 0.00005)
    began = time.process_time()
    for _ in range(_CALLS):
        call()
    return (time.process_time() - began) / _CALLS * 1e6


SCRIPT = Script(
    name="metrics",
    description="Measure the CPU time that counting adds to a call, in this process.",
    rounds=(3, 7),
    seconds=(1, 1),
    packages=("prometheus-client",),
    measure=_measure,
)


if __name__ == "__main__":
    sys.exit(main(SCRIPT))
