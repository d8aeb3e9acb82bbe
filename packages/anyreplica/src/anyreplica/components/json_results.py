"""The check that the result of a component can be written as JSON, and the search for the part of it that cannot."""

import inspect
import json
import math
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NoReturn

from fastmcp.resources import Resource, ResourceContent, ResourceResult
from fastmcp.utilities.types import Audio, File, Image, get_cached_typeadapter
from mcp_types import ContentBlock
from pydantic.errors import PydanticSchemaGenerationError
from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

_MEDIA = Audio | File | Image
_CONTENT = ContentBlock | Audio | File | Image

_MOST_VALUES = 50_000
"""Maximum number of values that a search looks at. It takes up to 50 ms, and nothing else runs meanwhile."""

_DEEPEST = 200
"""Maximum depth of a search. pydantic writes no deeper values than 255."""

_LONGEST = 300
"""Maximum number of characters of a place."""


def check_value(value: Any) -> None:
    """Check that a value can be written as JSON.

    Raises:
        ValueError: the value contains an object of an unknown type, a reference to itself, NaN or an infinity (RFC
            8259, section 6), or text that is not Unicode.
    """
    _check(value, _media)


def _check(value: Any, fallback: Callable[[Any], None]) -> None:
    if isinstance(value, str):
        value.encode()
        return
    try:
        written = to_json(value, inf_nan_mode="constants", fallback=fallback)
    except ValueError:
        parts = value if isinstance(value, list | tuple) else ()
        if not (isinstance(value, bytes) or any(isinstance(each, _CONTENT) for each in parts)):
            raise
        # FastMCP writes bytes as base64 if they are the whole result, or if they are beside content blocks.
        written = to_json(value, bytes_mode="base64", inf_nan_mode="constants", fallback=fallback)
    if b"NaN" in written or b"Infinity" in written:  # a number, or part of a text: the parser finds out
        json.loads(written, parse_constant=_no_number)


def no_json(what: str, value: Any, check: Callable[[Any], None] = check_value) -> str:
    """Return the error for clients: it names the component and the part of the value.

    Args:
        what: the kind and the name of the component.
        value: a value that `check` has refused.
        check: the function of this module that has refused it.
    """
    fault = json_fault(value, check)
    return f"{what} returned a value that cannot be written as JSON{': ' if fault else ''}{fault}"


def check_tool_result(value: Any) -> None:
    """Check a tool's result like `check_value`. FastMCP writes an object of an unknown type as text, or refuses it."""
    _check(value, _any)


def check_contents(value: Any) -> None:
    """Check that the result of a resource can be written as JSON; raise ValueError like `check_value`."""
    if isinstance(value, Resource):
        return  # FastMCP reads this resource
    meta, contents = (value.meta, value.contents) if isinstance(value, ResourceResult) else (None, value)
    if isinstance(contents, list) and any(isinstance(each, ResourceContent) for each in contents):
        # Bytes become base64 in a content, but not in its `meta`.
        texts = [each.model_copy(update={"content": ""}) if _is_binary(each) else each for each in contents]
        to_json([meta, texts])
    else:
        check_value(value)


def serializer_of(annotation: Any) -> Callable[..., Any]:
    """Return the function with which FastMCP makes plain data of a value with this annotation.

    The function takes the value, and `mode="json"`.

    Raises (the returned function):
        ValueError: the value has no such form.
    """
    if annotation in (inspect.Signature.empty, None, ...) or isinstance(annotation, str):
        annotation = Any
    try:
        serializer = get_cached_typeadapter(annotation).serializer
    except PydanticSchemaGenerationError:
        serializer = get_cached_typeadapter(Any).serializer
    return serializer.to_python


def _is_binary(content: Any) -> bool:
    return isinstance(content, ResourceContent) and isinstance(content.content, bytes)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _any(_: object) -> None:
    """Accept an object of any type."""


def _media(value: object) -> None:
    """Accept FastMCP's media types, which FastMCP writes itself; raise an error for any other unknown type."""
    if not isinstance(value, _MEDIA):
        raise PydanticSerializationError(f"unknown type {type(value).__name__}")


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
