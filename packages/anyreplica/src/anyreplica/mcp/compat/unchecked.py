"""Values of FastMCP and the MCP SDK that are made without validation, because their parts are checked already."""

from typing import Any, TypeVar

from fastmcp.tools import ToolResult
from mcp_types import CallToolRequestParams, TextContent
from pydantic import BaseModel

M = TypeVar("M", bound=BaseModel)

_RAW = "_raw_mcp_result"
_BLOCK = TextContent(type="text", text="").__dict__
_PARAMS = CallToolRequestParams(name="").__dict__
_set = object.__setattr__
"""Sets an attribute of a pydantic model without the model's own steps."""


def has_raw_result(result: ToolResult) -> bool:
    """Return whether a tool result contains a `CallToolResult` of the SDK, which FastMCP sends unchanged."""
    return (result.__pydantic_private__ or {}).get(_RAW) is not None  # reading the attribute would take 1 µs


def text_result(text: str) -> ToolResult:
    """Return the tool result of a text that FastMCP wraps. It shares no object: middleware may change it."""
    block = _unchecked(TextContent, {**_BLOCK, "text": text}, {"type", "text"})
    values = {
        "content": [block],
        "structured_content": {"result": text},
        "meta": {"fastmcp": {"wrap_result": True}},
        "is_error": False,
    }
    return _unchecked(ToolResult, values, {"content", "structured_content", "meta"}, {_RAW: None})


def tool_params(name: str, arguments: dict[str, Any], meta: dict[str, Any] | None = None) -> CallToolRequestParams:
    """Return the params of a tool call whose parts are checked. They have a dictionary of their own."""
    values = {**_PARAMS, "meta": meta, "name": name, "arguments": {**arguments}}
    fields = {"name", "arguments"} if meta is None else {"meta", "name", "arguments"}
    return _unchecked(CallToolRequestParams, values, fields)


def _unchecked(model: type[M], values: dict[str, Any], fields: set[str], private: dict[str, Any] | None = None) -> M:
    """Return a model with these values, as its constructor makes it from valid values, but without the validation.

    Args:
        values: The values of all fields.
        fields: The names of the fields that the caller of the constructor would name.
        private: The private attributes.
    """
    made = model.__new__(model)
    _set(made, "__dict__", values)
    _set(made, "__pydantic_fields_set__", fields)
    _set(made, "__pydantic_extra__", None)
    _set(made, "__pydantic_private__", private)
    return made
