"""Quick checks of large arguments before FastMCP or the SDK validates them. These report every single problem."""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from fastmcp.exceptions import ValidationError as InvalidArguments
from fastmcp.server.dependencies import without_injected_parameters
from fastmcp.tools import FunctionTool
from fastmcp.utilities.types import get_cached_typeadapter
from mcp.server.mcpserver.tools import Tool
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import SchemaValidator

from anyreplica.components import problems

FEW = 10
"""Arguments with at most this number of values need no check: they cannot have many problems."""

_SOME = 1000
"""Arguments with at most this number of values are left to FastMCP's validation."""

_CONTAINERS = frozenset({"list", "dict", "set", "frozenset", "tuple"})


def check(tool: FunctionTool, arguments: Mapping[str, Any]) -> None:
    """Check large arguments quickly, without a search for all their problems.

    Raises:
        fastmcp.exceptions.ValidationError: the arguments are invalid. Either there are more than ten arguments and some
            are unknown, or there are more than 1000 values and some are invalid.
    """
    if text := problems.unknown(arguments, tool.parameters.get("properties", {})):
        raise InvalidArguments(text)
    if count(arguments) <= _SOME:
        return
    try:
        _validator(without_injected_parameters(tool.fn, run_in_thread=tool.run_in_thread))(arguments)
    except ValidationError as error:
        raise InvalidArguments(problems.describe_validation_error(error)) from None


def with_known(error: InvalidArguments, arguments: Mapping[str, Any], known: Iterable[str]) -> InvalidArguments:
    """Return an error about arguments that also names the known ones, if any argument is unknown."""
    text = str(error)
    longer = problems.with_known(text, arguments, known)
    return error if longer == text else InvalidArguments(longer, log_level=error.log_level)


def check_model(tool: Tool, arguments: Mapping[str, Any]) -> None:
    """Check large arguments of a tool of an `MCPServer` quickly, without a search for all their problems.

    The SDK parses a text that stands for a list or an object, so a text may have many values, too.

    Raises:
        fastmcp.exceptions.ValidationError: the arguments are invalid.
    """
    if count(arguments) <= _SOME and not any(
        isinstance(each, str) and len(each) > _SOME for each in arguments.values()
    ):
        return
    try:
        _model_validator(tool.fn_metadata.arg_model)(tool.fn_metadata.pre_parse_json(dict(arguments)))
    except ValidationError as error:
        raise InvalidArguments(problems.describe_validation_error(error)) from None


def shortened(error: InvalidArguments) -> InvalidArguments:
    """Return FastMCP's error, or a new error with the first ten problems if FastMCP's error has more."""
    cause = error.__cause__
    if isinstance(cause, ValidationError) and not problems.is_short(cause):
        return InvalidArguments(problems.describe_validation_error(cause))
    return error


def count(arguments: Mapping[str, Any]) -> int:
    """Return the number of values in arguments, at any depth. The count stops above 1000."""
    found: list[Any] = [arguments]
    for each in found:  # the list grows during the loop
        inner = each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        if len(found) + len(inner) > _SOME:
            return len(found) + len(inner)
        found.extend(inner)
    return len(found)


@lru_cache(maxsize=100)
def _validator(fn: Callable[..., Any]) -> Callable[[Mapping[str, Any]], Any]:
    """Return a validator of a function's arguments that does not call the function.

    The validator stops at the first problem in each list, object and set.
    """
    schema: Any = get_cached_typeadapter(fn).core_schema
    if schema["type"] == "definitions":
        schema = {**schema, "schema": schema["schema"]["arguments_schema"]}
    else:
        schema = schema["arguments_schema"]
    return SchemaValidator(_failing_fast(schema)).validate_python


@lru_cache(maxsize=100)
def _model_validator(model: type[BaseModel]) -> Callable[[Mapping[str, Any]], Any]:
    """Return a validator of a model that stops at the first problem in each list, object and set."""
    schema: Any = TypeAdapter(model).core_schema
    # Of the fields only: for the whole model, pydantic would use the validator that the model has already.
    is_shared = schema["type"] == "definitions"
    schema = {**schema, "schema": schema["schema"]["schema"]} if is_shared else schema["schema"]
    return SchemaValidator(_failing_fast(schema)).validate_python


def _failing_fast(schema: Any) -> Any:
    if isinstance(schema, list | tuple):
        return type(schema)(_failing_fast(each) for each in schema)
    if not isinstance(schema, dict):
        return schema
    copied = {key: _failing_fast(value) for key, value in schema.items()}
    return {**copied, "fail_fast": True} if schema.get("type") in _CONTAINERS else copied
