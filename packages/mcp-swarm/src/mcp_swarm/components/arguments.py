"""A function tool's arguments, checked before FastMCP validates them, because FastMCP lists every single problem."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from fastmcp.exceptions import ValidationError as InvalidArguments
from fastmcp.server.dependencies import without_injected_parameters
from fastmcp.tools import FunctionTool
from fastmcp.utilities.types import get_cached_typeadapter
from pydantic import ValidationError
from pydantic_core import SchemaValidator

from mcp_swarm.components import problems

FEW = 10
"""Arguments with at most so many values can't have many problems."""

_SOME = 1000
"""Arguments with at most so many values are validated as a whole."""

_CONTAINERS = frozenset({"list", "dict", "set", "frozenset", "tuple"})


def check(tool: FunctionTool, arguments: Mapping[str, Any]) -> None:
    """Raise FastMCP's ValidationError for arguments with so many problems that it would take long to find all."""
    if text := problems.unknown(arguments, tool.parameters.get("properties", {})):
        raise InvalidArguments(text)
    if count(arguments) <= _SOME:
        return
    try:
        _validator(without_injected_parameters(tool.fn, run_in_thread=tool.run_in_thread))(arguments)
    except ValidationError as error:
        raise InvalidArguments(problems.told(error)) from None


def shortened(error: InvalidArguments) -> InvalidArguments:
    """FastMCP's error; if that lists more than ten problems, a new error with the first ten."""
    cause = error.__cause__
    if isinstance(cause, ValidationError) and not problems.is_short(cause):
        return InvalidArguments(problems.told(cause))
    return error


def count(arguments: Mapping[str, Any]) -> int:
    """The number of values in arguments, at any depth; counting stops at about a thousand."""
    waiting: list[Any] = [arguments]
    seen = 0
    while waiting and seen <= _SOME:
        each = waiting.pop()
        seen += 1
        if isinstance(each, Mapping | list):
            if len(each) > _SOME:
                return len(each)
            waiting.extend(each.values() if isinstance(each, Mapping) else each)
    return seen


@lru_cache(maxsize=100)
def _validator(fn: Callable[..., Any]) -> Callable[[Mapping[str, Any]], Any]:
    """Validates a function's arguments without a call of it, and stops at the first problem of each list."""
    schema: Any = get_cached_typeadapter(fn).core_schema
    if schema["type"] == "definitions":
        schema = {**schema, "schema": schema["schema"]["arguments_schema"]}
    else:
        schema = schema["arguments_schema"]
    return SchemaValidator(_failing_fast(schema)).validate_python


def _failing_fast(schema: Any) -> Any:
    if isinstance(schema, list | tuple):
        return type(schema)(_failing_fast(each) for each in schema)
    if not isinstance(schema, dict):
        return schema
    copied = {key: _failing_fast(value) for key, value in schema.items()}
    return {**copied, "fail_fast": True} if schema.get("type") in _CONTAINERS else copied
