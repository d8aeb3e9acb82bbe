"""Arguments as canonical JSON."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyreplica.features.audit.call import UNWRITABLE, canonical

_text = st.text(st.characters(), max_size=5)  # includes lone surrogates
_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False, allow_infinity=False) | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=8,
)


def with_reversed_keys(value: Any) -> Any:
    """Return the same value with its keys in the opposite order."""
    if isinstance(value, dict):
        return {key: with_reversed_keys(inner) for key, inner in reversed(value.items())}
    return [with_reversed_keys(inner) for inner in value] if isinstance(value, list) else value


@given(st.dictionaries(_text, _values, max_size=4))
def test_canonical_json_keeps_the_value(arguments: dict[str, Any]) -> None:
    """Canonical JSON has the same value as the arguments, and does not depend on the order of their keys."""
    written = canonical(arguments)
    assert json.loads(written) == arguments
    assert canonical(with_reversed_keys(arguments)) == written


def test_keys_are_sorted_and_there_are_no_spaces() -> None:
    """Canonical JSON has sorted keys and no spaces, so that others can produce it. Absent arguments are no object."""
    assert (canonical(None), canonical({})) == (b"", b"{}")
    assert canonical({"b": [1, 2.5], "a": "é"}) == '{"a":"é","b":[1,2.5]}'.encode()
    assert canonical({"b": 2**64, "a": "é"}) == b'{"a":"\\u00e9","b":18446744073709551616}'


_circle: list[Any] = []
_circle.append(_circle)
_deep: list[Any] = []
for _ in range(100_000):
    _deep = [_deep]


@pytest.mark.parametrize("arguments", [{"a": object()}, {1: 2, "b": 2**64}, _circle, {"a": 10**5000}, _deep])
def test_a_value_that_is_not_json_does_not_raise(arguments: Any) -> None:
    """A value that is not valid JSON, which no caller can send, does not raise an error, so the call continues."""
    assert canonical(arguments) == UNWRITABLE
