"""The autoscaler in a simulation: overload and replica hours, beside other ways to choose the number of replicas.

python -m benchmarks.autoscale
"""

import sys

from benchmarks.autoscale.course import simulate
from benchmarks.autoscale.curves import CURVES, Curve
from benchmarks.autoscale.scalers import Autoscaler, ByCpu, Choice, Fixed, optimum_hours
from benchmarks.command import Run, Script, main
from benchmarks.study import Column, Row, Table

_MOST_HOURS = 1.15
_MOST_OVERLOADED = 0.1

_FIGURES = [
    Column("hours", "replica hours"),
    Column("ratio", "of the optimum", "×"),
    Column("most_hours", "at most", "×", limits="ratio"),
    Column("overloaded", "overloaded seconds", "%"),
    Column("most_overloaded", "at most", "%", limits="overloaded"),
    Column("changes", "changes"),
]


def _measure(run: Run) -> list[Table]:
    choices: tuple[type[Choice], ...] = (Autoscaler, ByCpu, Fixed)
    run.step.expect(len(CURVES) * len(choices))
    tables = []
    for curve in CURVES:
        rows = []
        for choice in choices:
            run.step(f"{curve.name}: {choice.name}")
            rows.append(_row(curve, choice, run.rounds))
        best = [optimum_hours(curve.loads(seed)) for seed in range(run.rounds)]
        optimum = {"hours": best, "ratio": [1.0] * run.rounds, "overloaded": [0.0] * run.rounds}
        rows.append(Row.of("optimum", "an ideal autoscaler", optimum))
        tables.append(Table(curve.name, curve.title, _FIGURES, rows))
    return tables


def _row(curve: Curve, choice: type[Choice], rounds: int) -> Row:
    figures: dict[str, list[float]] = {name: [] for name in ("hours", "ratio", "overloaded", "changes")}
    for seed in range(rounds):
        loads = curve.loads(seed)
        outcome = simulate(loads, choice())
        figures["hours"].append(outcome.hours)
        figures["ratio"].append(outcome.hours / optimum_hours(loads))
        figures["overloaded"].append(100 * outcome.overloaded)
        figures["changes"].append(outcome.changes)
    if curve.name == "day" and choice is Autoscaler:
        figures |= {"most_hours": [_MOST_HOURS], "most_overloaded": [_MOST_OVERLOADED]}
    return Row.of(choice.name, choice.title, figures)


SCRIPT = Script(
    name="autoscale",
    description="Simulate a day, a step, a spike, a sawtooth and noise, with the code that decides in the autoscaler.",
    rounds=(1, 5),
    seconds=(1, 1),
    packages=(),
    measure=_measure,
    pinned=False,
)


if __name__ == "__main__":
    sys.exit(main(SCRIPT))
