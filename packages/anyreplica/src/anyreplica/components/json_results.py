"""The check that the result of a component can be written as JSON."""

import inspect
import json
from collections.abc import Callable
from typing import Any, NoReturn

from fastmcp.resources import Resource, ResourceContent, ResourceResult
from fastmcp.utilities.types import Audio, File, Image, get_cached_typeadapter
from mcp_types import ContentBlock
from pydantic.errors import PydanticSchemaGenerationError
from pydantic_core import PydanticSerializationError, to_json

from anyreplica.components.json_faults import json_fault

_MEDIA = Audio | File | Image
_CONTENT = ContentBlock | Audio | File | Image


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
