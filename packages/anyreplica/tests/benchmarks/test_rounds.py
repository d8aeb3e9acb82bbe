"""The figures of some cases, round by round."""

import argparse
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from benchmarks.command import Run
from benchmarks.load import LoadError
from benchmarks.machine import this_machine
from benchmarks.progress import progress
from benchmarks.rounds import Rounds
from benchmarks.study import Row


@dataclass(frozen=True)
class _Case:
    name: str

    @property
    def title(self) -> str:
        return f"the {self.name}"


A, B, C = _Case("a"), _Case("b"), _Case("c")


def test_rounds(tmp_path: Path) -> None:
    """Every second round has the reverse order, and a case that fails is left out of the following rounds."""
    calls: list[str] = []

    def measure(case: _Case) -> dict[str, float]:
        calls.append(case.name)
        if case is B:
            raise LoadError("no reply")
        return {"rate": len(calls)}

    rounds = Rounds([A, B, C])
    with progress(Console(), 0) as step:
        run = Run(argparse.Namespace(), False, 2, 1.0, this_machine(), tmp_path, step, {})
        rounds.measure(run, measure)
    assert calls == ["a", "b", "c", "c", "a"]
    assert rounds.values["a"] == {"rate": [1, 5]}
    assert rounds.ratios("c", "a", "rate") == [3, 4 / 5]
    a, b, _ = rounds.rows(lambda case: {"more": [1]} if case is A else {})
    assert a == Row.of("a", "the a", {"rate": [1, 5], "more": [1]})
    assert b == Row("b", "the b", failure="no reply")


def test_skipped() -> None:
    """A case that was not tried has its reason in the row."""
    rounds = Rounds([A])
    rounds.skipped["a"] = "not installed"
    assert rounds.rows() == [Row("a", "the a", skipped="not installed")]
