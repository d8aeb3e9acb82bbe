"""Tests of the search for the part of a value that cannot be written as JSON."""

import math
from collections import deque
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, Field

from anyreplica.components.json_results import check_contents, check_tool_result, check_value, json_fault


class Named(BaseModel):
    """A model whose field has another name for clients."""

    text: str = Field(alias="label")


@dataclass
class Part:
    """A dataclass that contains any value."""

    value: Any


class Opaque:
    """An object that JSON cannot represent."""

    def __str__(self) -> str:
        raise ZeroDivisionError


ENDLESS: list[Any] = []
ENDLESS.append({"again": ENDLESS})


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (math.nan, "NaN is not a JSON number"),
        ({"a": [1, {"b": -math.inf}]}, "a.1.b: -Infinity is not a JSON number"),
        ({"a": {math.inf}}, "a.0: Infinity is not a JSON number"),
        ({3: math.nan}, "3: NaN is not a JSON number"),
        ("\ud800", "the text is not Unicode"),
        ([Named(label="\ud800")], "0.label: the text is not Unicode"),
        (Part(["\ud800"]), "value.0: the text is not Unicode"),
        ({"a": {"\ud800": 1}}, "a: in a key, the text is not Unicode"),
        ({"\ud800": [math.nan]}, "in a key, the text is not Unicode"),
        ({"a": b"\xff"}, "a: the bytes are not UTF-8"),
        ({"a": ENDLESS}, "a.0.again: the value contains itself"),
    ],
)
def test_the_place_and_the_reason(value: Any, fault: str) -> None:
    """The first part that cannot be written is named, as clients see it."""
    for check in (check_value, check_tool_result, check_contents):
        with pytest.raises(ValueError, match=r"."):
            check({"within": [value]})
        assert json_fault(value, check) == fault


def test_a_deque_is_a_list() -> None:
    """Pydantic 2.12 does not know it, so in the result of a tool, FastMCP writes it as text with that version."""
    for check in (check_value, check_contents):
        with pytest.raises(ValueError, match=r"."):
            check([deque([1, math.nan])])
        assert json_fault(deque([1, math.nan]), check) == "1: NaN is not a JSON number"


def test_an_object_of_an_unknown_type() -> None:
    """FastMCP writes it as text in the result of a tool only."""
    for check in (check_value, check_contents):
        assert json_fault({"a": [Opaque()]}, check) == "a.0: Opaque is not a JSON type"
        assert json_fault({Opaque(): 1}, check) == "in a key, Opaque is not a JSON type"
    assert json_fault([Opaque(), math.nan], check_tool_result) == "1: NaN is not a JSON number"


def test_values_without_a_fault() -> None:
    """They have an empty text. So has a fault that is behind too many values, or too deep."""
    for value in (None, 1, 10**5000, "ä", ["NaN", 1.5], {"a": Named(label="b")}, {(1, 2): 3}, {math.nan: 1}):
        assert json_fault(value, check_value) == ""
    assert json_fault([*range(1000), math.nan], check_value) == "1000: NaN is not a JSON number"
    assert json_fault([*range(1_000_000), math.nan], check_value) == ""
    deep: Any = math.nan
    for _ in range(100_000):
        deep = [deep]
    assert json_fault(deep, check_value) == ""


def test_a_long_place_is_cut() -> None:
    """The reason stays whole. A name that is not Unicode is readable."""
    assert json_fault({"a" * 1000: math.nan}, check_value) == f"{'a' * 300}: NaN is not a JSON number"


def test_a_value_whose_methods_fail() -> None:
    """The search ends without a result."""

    class Broken(dict[str, Any]):
        def items(self) -> Any:
            raise ZeroDivisionError

    assert json_fault(Broken(a=b"\xff"), check_value) == ""
