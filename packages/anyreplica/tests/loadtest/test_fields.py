"""Tests of fields, such as `{i}`, in the arguments of calls."""

import re
import uuid

import pytest

from anyreplica.load.scenario import maker


def test_a_number_alone_is_a_number() -> None:
    """A field that is a whole value becomes a number, within a text it becomes text, and others stay unchanged."""
    assert maker({"a": [1, "text", {"b": None}], "c": "{no}", "d": "{}"}) is None
    make = maker({"a": "{i}", "b": "call {i} of {i}", "c": ["{i}", 1.5], "d": {"e": True}})
    assert make
    assert make(17) == {"a": 17, "b": "call 17 of 17", "c": [17, 1.5], "d": {"e": True}}


def test_random_fields() -> None:
    """Random fields stay within their limits."""
    make = maker({"r": "{random:-2-3}", "c": "{choice:a|b|c d}", "u": "{uuid}", "t": "x{random}y"})
    assert make
    made = [make(number) for number in range(200)]
    assert {each["r"] for each in made} == set(range(-2, 4))
    assert {each["c"] for each in made} == {"a", "b", "c d"}
    assert len({uuid.UUID(each["u"]) for each in made}) == 200
    assert all(re.fullmatch(r"x\d{1,6}y", each["t"]) for each in made)


@pytest.mark.parametrize("text", ["{random:5}", "{random:9-1}", "{random:a-b}"])
def test_an_invalid_field_is_refused(text: str) -> None:
    """An invalid field is refused with a valid example."""
    with pytest.raises(ValueError, match=r"\{random:1-100\}"):
        maker({"a": text})
