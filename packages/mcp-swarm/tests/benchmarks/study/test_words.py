"""Figures as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.spread import Spread
from benchmarks.study.words import cells, figure, number
from tests.benchmarks.study.example import TABLE


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.00123, "0.0012"),
        (0.2, "0.200"),
        (1.5, "1.50"),
        (19.64, "19.6"),
        (100, "100"),
        (1234.5, "1,234"),
        (4231, "4,231"),
        (9.999, "10.00"),
        (float("inf"), "inf"),
    ],
)
def test_three_digits_count(value: float, text: str) -> None:
    """And all before the point are there."""
    assert number(value) == text


@given(st.floats(1e-3, 1e9))
def test_a_number_is_near_what_it_was(value: float) -> None:
    """Within half a percent, or what four digits behind the point can say."""
    assert float(number(value).replace(",", "")) == pytest.approx(value, rel=0.006, abs=6e-5)


def test_a_spread() -> None:
    """Its ends only where they differ."""
    assert figure(Spread(5, 5, 5)) == "5"
    assert figure(Spread(5, 4, 6.5)) == "5 (4–6.50)"


def test_rows() -> None:
    """What has no figures says why."""
    rows = [cells(row, TABLE.columns) for row in TABLE.rows]
    assert rows[0] == ["stdio, <a process>", "19.6 (18–22)", "51"]
    assert rows[2][1] == "skipped: granian is not installed: pip install granian"
    assert rows[3][1] == "✗ wrong reply: HTTP 500 <b>"
    assert {len(row) for row in rows} == {3}
