"""The selection of arguments whose values an entry contains."""

from typing import Any

import pytest

from anyreplica.features.audit.line import MOST_SHOWN_BYTES, Shown
from tests.audit.calls import a_call, line_of, said


def shown(arguments: Any, *patterns: str, name: str = "echo") -> Any:
    """Return the argument values in the entry of a call."""
    return said(line_of(a_call(arguments, name=name), *patterns)).get("arguments")


@pytest.mark.parametrize(
    ("patterns", "name", "expected"),
    [
        ((), "echo", None),
        (("echo.message",), "echo", {"message": "a"}),
        (("echo.message",), "other", None),
        (("echo.nothing",), "echo", None),
        (("echo.message", "echo.n*"), "echo", {"message": "a", "number": 1}),
        (("sales_*.message",), "sales_report", {"message": "a"}),
        (("sales_*.message",), "my_sales_report", None),
        (("*.message",), "anything", {"message": "a"}),
        (("echo.Message", "Echo.message"), "echo", None),
        (("a.b.message",), "a.b", {"message": "a"}),
        (("a.message",), "a.b", None),
        (("echo.mess",), "echo", None),
        (("[ef]cho.*",), "echo", {"message": "a", "number": 1, "password": "hunter2"}),
    ],
)
def test_arguments_that_match_a_pattern_are_shown(patterns: tuple[str, ...], name: str, expected: Any) -> None:
    """An entry contains the arguments that match a pattern, and no others."""
    assert shown({"message": "a", "number": 1, "password": "hunter2"}, *patterns, name=name) == expected


_OBJECT = {"value": {"a": [1, None, True, 2.5, "é\u2028"], "b": 2**80}}


@pytest.mark.parametrize(("arguments", "expected"), [(_OBJECT, _OBJECT), ([1], None), ("echo", None), (1, None)])
def test_values_are_shown_as_they_are(arguments: Any, expected: Any) -> None:
    """An entry contains values of any kind without a change, but only those of an object."""
    assert shown(arguments, "*.*") == expected


@pytest.mark.parametrize(
    ("arguments", "left"),
    [
        ({"message": "x" * (MOST_SHOWN_BYTES + 1)}, None),
        ({"message": "\ud800"}, None),
        ({"message": "x" * 5000, "mess": "y"}, {"mess": "y"}),
        ({"message": "x", "other": "y" * 70_000}, None),
    ],
    ids=["too long", "no valid text", "another value fits", "too long together"],
)
def test_values_that_are_too_long_are_left_out(arguments: Any, left: Any) -> None:
    """An entry leaves out a value that is too long or no valid text, or all if they are too long, and says so."""
    line = said(line_of(a_call(arguments), "echo.mess*"))
    assert line.get("arguments") == left
    assert line["arguments_left_out"] is True


@pytest.mark.parametrize("pattern", ["", "echo", ".message", "echo.", "echo. message", "echo.mess\nage", "."])
def test_a_malformed_pattern_is_refused(pattern: str) -> None:
    """A malformed pattern is refused with an example of a good one."""
    with pytest.raises(ValueError, match=r"is not a pattern; write tool\.argument"):
        Shown((pattern,))
