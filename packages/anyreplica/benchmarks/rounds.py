"""The figures of some cases, round by round."""

import argparse
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from benchmarks.command import Run
from benchmarks.load import LoadError
from benchmarks.process import ProcessError
from benchmarks.study import Row


class Case(Protocol):
    """A case of a study."""

    @property
    def name(self) -> str:
        """Name in JSON and for `--only`."""

    @property
    def title(self) -> str:
        """Name in tables."""


_Case = TypeVar("_Case", bound=Case)


class Rounds(Generic[_Case]):
    """The figures of some cases. A case that fails is left out of the following rounds."""

    def __init__(self, cases: Sequence[_Case]) -> None:
        self.cases = cases
        self.values: dict[str, dict[str, list[float]]] = {case.name: defaultdict(list) for case in cases}
        """Values by the case's name and the column's name, one per round."""
        self.failures: dict[str, str] = {}
        self.skipped: dict[str, str] = {}

    def measure(self, run: Run, function: Callable[[_Case], Mapping[str, float]]) -> None:
        """Measure each case once per round; every second round has the reverse order.

        Args:
            function: Function that returns the figures of a case in one round. Its errors become the case's failure:
                `LoadError`, `ProcessError`, `OSError`.
        """
        cases = [case for case in self.cases if case.name not in self.skipped]
        run.step.expect(run.rounds * len(cases))
        for number in range(1, run.rounds + 1):
            for case in cases if number % 2 else reversed(cases):
                run.step(f"round {number} of {run.rounds}: {case.name}")
                if case.name in self.failures:
                    continue
                try:
                    for column, value in function(case).items():
                        self.values[case.name][column].append(value)
                except (LoadError, ProcessError, OSError) as error:
                    self.failures[case.name] = str(error)

    def ratios(self, name: str, other: str, column: str) -> list[float]:
        """Return the values of a case divided by those of another case in the same rounds."""
        pairs = zip(self.values[name][column], self.values[other][column], strict=False)
        return [mine / theirs for mine, theirs in pairs]

    def rows(self, more: Callable[[_Case], Mapping[str, Sequence[float]]] = lambda _: {}) -> list[Row]:
        """Return a row per case, with figures that a function computes from all rounds."""
        found = []
        for case in self.cases:
            if reason := self.skipped.get(case.name):
                found.append(Row(case.name, case.title, skipped=reason))
            else:
                values = {**self.values[case.name], **more(case)}
                found.append(Row.of(case.name, case.title, values, self.failures.get(case.name, "")))
        return found


def add_only(parser: argparse.ArgumentParser, cases: Sequence[_Case]) -> None:
    """Add `--only NAME,…`, which chooses some cases."""
    names = [case.name for case in cases]

    def read(text: str) -> list[_Case]:
        wanted = text.split(",")
        for name in wanted:
            if name not in names:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(names)}")
        return [case for case in cases if case.name in wanted]

    parser.add_argument(
        "--only", type=read, default=list(cases), metavar="NAME,…", help=f"only these cases: {', '.join(names)}"
    )
