"""The comparison of a reply with the expected reply."""

from typing import Any

import pytest

from benchmarks.expectation import difference


@pytest.mark.parametrize(
    ("expected", "actual", "says"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, ""),
        ({"a": 1}, {"b": 2}, "reply has no 'a'"),
        ({"a": {"b": [{"c": "x"}]}}, {"a": {"b": [{"c": "y"}]}}, "reply.a.b[0].c is 'y', not 'x'"),
        ([1, 2], [1, 2, 3], "reply has 3 items, not 2"),
        ([1, 2], [1, 2], ""),
        (1, True, "reply is True, not 1"),
        (1, 1.0, "reply is 1.0, not 1"),
        ({}, [], "reply is [], not {}"),
        (None, None, ""),
        ("x", "y" * 500, f"reply is '{'y' * 119}…, not 'x'"),
    ],
)
def test_difference(expected: Any, actual: Any, says: str) -> None:
    """The first difference is named with its place."""
    assert difference(expected, actual) == says
