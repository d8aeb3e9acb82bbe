"""Arguments as canonical JSON."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_swarm.audit.call import UNWRITABLE, canonical

_text = st.text(st.characters(), max_size=5)  # lone surrogates, too
_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False, allow_infinity=False) | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=8,
)


def turned(value: Any) -> Any:
    """The same value with its keys in the opposite order."""
    if isinstance(value, dict):
        return {key: turned(inner) for key, inner in reversed(value.items())}
    return [turned(inner) for inner in value] if isinstance(value, list) else value


@given(st.dictionaries(_text, _values, max_size=4))
def test_it_is_json_that_says_the_same(arguments: dict[str, Any]) -> None:
    """Whatever a caller can send, and whatever order its keys have."""
    written = canonical(arguments)
    assert json.loads(written) == arguments
    assert canonical(turned(arguments)) == written


def test_there_may_be_none() -> None:
    """Which differs from an empty object."""
    assert canonical(None) == b""
    assert canonical({}) == b"{}"


def test_keys_are_sorted_and_there_are_no_spaces() -> None:
    """So that somebody else can make the same bytes of the same values."""
    assert canonical({"b": [1, 2.5], "a": "é"}) == '{"a":"é","b":[1,2.5]}'.encode()
    assert canonical({"b": 2**64, "a": "é"}) == b'{"a":"\\u00e9","b":18446744073709551616}'


_circle: list[Any] = []
_circle.append(_circle)
_deep: list[Any] = []
for _ in range(100_000):
    _deep = [_deep]


@pytest.mark.parametrize("arguments", [{"a": object()}, {1: 2, "b": 2**64}, _circle, {"a": 10**5000}, _deep])
def test_what_is_no_json_does_not_raise(arguments: Any) -> None:
    """It can't come from a caller; the call goes on all the same."""
    assert canonical(arguments) == UNWRITABLE
