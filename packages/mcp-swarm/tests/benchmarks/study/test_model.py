"""Formulas."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.study.model import evaluate
from benchmarks.study.study import Assumption, Formula, Model
from tests.benchmarks.study.example import MODEL

_EXPRESSIONS = st.recursive(
    st.sampled_from(["a", "b", "1", "2.5", "1e6"]),
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*/"), inner) | st.builds("ceil({})".format, inner)
    ),
    max_leaves=8,
)


def _model(text: str) -> Model:
    return Model([Assumption("a", "a", 3), Assumption("b", "b", 7)], [Formula("c", "c", text)])


@given(_EXPRESSIONS)
def test_a_formula_is_arithmetic(text: str) -> None:
    """As Python has it."""
    try:
        expected = float(eval(text, {"ceil": math.ceil}, {"a": 3.0, "b": 7.0}))  # noqa: S307
    except ZeroDivisionError:
        expected = math.inf
    assert evaluate(_model(text))["c"] == expected


@pytest.mark.parametrize(
    "text", ["d", "a ** b", "__import__('os')", "a.real", "a if b else a", "", "ceil(a, b)", "'a'"]
)
def test_nothing_else(text: str) -> None:
    """An unknown name, or another kind of expression, is refused by name."""
    with pytest.raises(ValueError, match=r"^c = "):
        evaluate(_model(text))


def test_one_may_build_on_another() -> None:
    """In their order."""
    assert evaluate(MODEL)["spare"] == math.ceil(10_000_000 / 4_500) - 1
