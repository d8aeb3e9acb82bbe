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


def test_values_are_shown_as_they_are() -> None:
    """An entry contains values of any kind without a change."""
    value = {"a": [1, None, True, 2.5, "é\u2028"], "b": 2**80}
    assert shown({"value": value}, "echo.value") == {"value": value}


@pytest.mark.parametrize("arguments", [[1], "echo", 1])
def test_arguments_that_are_not_an_object_are_not_shown(arguments: Any) -> None:
    """Arguments that are not an object are not shown."""
    assert shown(arguments, "*.*") is None


@pytest.mark.parametrize(
    "arguments",
    [{"message": "x" * (MOST_SHOWN_BYTES + 1)}, {"message": "x", "other": "y" * 70_000}, {"message": "\ud800"}],
)
def test_values_that_are_too_long_are_left_out(arguments: Any) -> None:
    """An entry leaves out a value that is too long or not valid text, and says so.

    It leaves out all values if the arguments together are too long.
    """
    line = said(line_of(a_call(arguments), "echo.message"))
    assert "arguments" not in line
    assert line["arguments_left_out"] is True


def test_other_values_are_still_shown() -> None:
    """An entry still contains the values that fit when another value is too long."""
    line = said(line_of(a_call({"a": "x" * 5000, "b": "y"}), "echo.*"))
    assert line["arguments"] == {"b": "y"}
    assert line["arguments_left_out"] is True


@pytest.mark.parametrize("pattern", ["", "echo", ".message", "echo.", "echo. message", "echo.mess\nage", "."])
def test_a_malformed_pattern_is_refused(pattern: str) -> None:
    """A malformed pattern is refused with an example of a good one."""
    with pytest.raises(ValueError, match=r"is not a pattern; write tool\.argument"):
        Shown((pattern,))
