"""The figures of a study, and their tables."""

import json
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.machine import choose_cores
from benchmarks.study import Spread, read
from benchmarks.tables import cells, figure, number
from tests.benchmarks.example import STUDY, TABLE


def test_a_study_is_read_as_it_was_written() -> None:
    """JSON keeps all members of a study."""
    assert read(json.dumps(asdict(STUDY))) == STUDY
    with pytest.raises(ValueError, match="tables"):
        read('{"name": "example"}')


def test_a_spread() -> None:
    """The median of an even number of values is between the two middle values."""
    assert Spread.of([4, 1, 3, 2]) == Spread(2.5, 1, 4)
    assert Spread.of([7]) == Spread(7, 7, 7)


@given(st.lists(st.floats(1e-3, 1e6), min_size=1))
def test_a_spread_is_ordered(values: list[float]) -> None:
    """Rounding keeps the order of the smallest, the middle and the largest value."""
    spread = Spread.of(values)
    assert spread.min <= spread.median <= spread.max


def test_targets() -> None:
    """A target is missed if the median of the limited column is larger."""
    assert TABLE.missed == ["HTTP | TCP: 0.214, target 0.2"]
    assert STUDY.failures == ["a broken one: wrong reply: HTTP 500 <b>"]
    assert STUDY.skipped == ["granian: granian is not installed: pip install granian"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.00123, "0.0012"), (0.2, "0.200"), (19.64, "19.6"), (100, "100"), (1234.5, "1,234"), (9.999, "10.00")],
)
def test_numbers(value: float, text: str) -> None:
    """A number has three significant digits, or all digits before the point."""
    assert number(value) == text


def test_cells() -> None:
    """A row without figures has its reason; a target has a mark."""
    rows = [cells(row, TABLE.columns) for row in TABLE.rows]
    assert rows[0] == ["stdio, <a process>", "19.6 (18–22)", "51", "✓ 19.6"]
    assert rows[1][3] == "✗ 0.2"
    assert rows[2][1] == "skipped: granian is not installed: pip install granian"
    assert rows[3][1] == "✗ wrong reply: HTTP 500 <b>"
    assert figure(Spread(5, 4, 6.5)) == "5 (4–6.50)"


@pytest.mark.parametrize(
    ("cores", "siblings", "chosen"),
    [([0, 1], {1}, (1, 0)), ([0, 1], {0, 1}, (1, 0)), ([2, 3, 4, 5], {2, 5}, (5, 3)), ([6], {6}, (6, 6))],
)
def test_cores(cores: list[int], siblings: set[int], chosen: tuple[int, int]) -> None:
    """Server and load run on different physical cores where possible."""
    assert choose_cores(cores, lambda _: siblings) == chosen
