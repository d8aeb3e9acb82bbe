"""The search for the part of a value that cannot be written as JSON, after the writer has failed."""

import json
import math
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from pydantic_core import to_jsonable_python

_MOST_VALUES = 50_000
"""Maximum number of values that a search looks at. It takes up to 50 ms, and nothing else runs meanwhile."""

_DEEPEST = 200
"""Maximum depth of a search. pydantic writes no deeper values than 255."""

_LONGEST = 300
"""Maximum number of characters of a place."""


def json_fault(value: Any, check: Callable[[Any], None]) -> str:
    """Return where and why a value cannot be written as JSON, such as `sides.1: NaN is not a JSON number`.

    The place is empty if it is the whole value. Without a result, the text is empty.

    Args:
        value: the value.
        check: raises ValueError for a value that cannot be written as JSON.
    """
    search = _Search(check)
    found = None
    with suppress(Exception):  # the value may have methods of the author, which may fail
        with suppress(ValueError):  # the fields of models then have the names that clients see
            found = search.first(to_jsonable_python(value, inf_nan_mode="constants", serialize_unknown=True), ())
        found = found or search.first(value, ())
    if found is None:
        return ""
    path, reason = found
    place = ".".join(path)[:_LONGEST].encode(errors="replace").decode()
    return f"{place}: {reason}" if place else reason


_Found = tuple[tuple[str, ...], str]
"""The names and numbers that lead to a value, and what is wrong with it."""


class _Search:
    def __init__(self, check: Callable[[Any], None]) -> None:
        self._check = check
        self._left = _MOST_VALUES
        self._around: list[int] = []  # the ids of the values that contain the present one

    def first(self, value: Any, path: tuple[str, ...]) -> _Found | None:
        """Return the first fault in a value; None if there is none, or if the search ends before it."""
        self._left -= 1
        if self._left < 0 or len(path) > _DEEPEST:
            return None
        if not isinstance(value, dict | list | tuple | set | frozenset | deque):
            reason = self._reason(value)
            return (path, reason) if reason else None
        if id(value) in self._around:
            return path, "the value contains itself"
        self._around.append(id(value))
        found = next(self._within(value, path), None)
        self._around.pop()
        return found

    def _within(self, value: Any, path: tuple[str, ...]) -> Iterator[_Found]:
        """Yield the first fault of each part of a value."""
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            if self._left < 0:
                return
            if reason := not isinstance(key, float) and self._reason(key):
                yield path, f"in a key, {reason}"
            if found := self.first(each, (*path, str(key))):
                yield found

    def _reason(self, value: Any) -> str:
        """Return why a value without parts cannot be written; empty if it can."""
        if value is None or isinstance(value, int) or (type(value) is str and value.isascii()):
            return ""
        if isinstance(value, float):
            return "" if math.isfinite(value) else f"{json.dumps(value)} is not a JSON number"
        try:
            self._check([value])  # bytes alone become base64
        except ValueError:
            kind = type(value).__name__
            return {"str": "the text is not Unicode", "bytes": "the bytes are not UTF-8"}.get(
                kind, f"{kind} is not a JSON type"
            )
        return ""
