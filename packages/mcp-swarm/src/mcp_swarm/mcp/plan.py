"""A tool compiled for the fast lane: what it takes to validate a call, run it, and write its result."""

import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fastmcp import FastMCP
from fastmcp.server.middleware import Middleware
from fastmcp.tools import FunctionTool, Tool, ToolResult
from fastmcp.tools.base import default_serializer
from fastmcp.utilities.types import Audio, File, Image
from mcp_types import CallToolResult, ContentBlock, InputRequiredResult, TextContent
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from mcp_swarm.components.outcome import PlannedTool
from mcp_swarm.http.json_replies import encode, response
from mcp_swarm.mcp import _sdk
from mcp_swarm.mcp.reply_template import WRAPPED, Template, template

_MEDIA = ContentBlock | Audio | Image | File
_PLAIN = frozenset({str, int, float, bool, dict})

Written = tuple[bytes, bytes | None]
"""A result's text and its structured content, both as JSON; None if there is no such content."""


@dataclass(slots=True)
class Plan:
    """How to call one tool."""

    tool: PlannedTool
    call: Callable[[Mapping[str, Any]], Awaitable[Any]]
    parameters: int
    """How many arguments a call has at most."""
    seconds: float
    """The time of a call."""
    write: Callable[[Any], Written | None]
    """Writes a result; None for one of an unusual kind."""
    structured: Mapping[str, Template]
    """Replies with structured content, by protocol version."""
    bare: Mapping[str, Template]
    """Replies without."""
    templates: "Templates"
    """What all tools share."""
    middleware: tuple[Middleware, ...]
    """Registered middleware that takes part in a call, outermost first."""


def why_full(tool: Tool, names: Mapping[str, int]) -> str:
    """Why a tool can't be planned, in a few words; empty if it can.

    Args:
        names: how many tools there are of each name.
    """
    if not isinstance(tool, PlannedTool):
        return "not a plain function"
    if tool.auth is not None:
        return "has an authorization check of its own"
    if tool.task_config.supports_tasks():
        return "may run as a task"
    return "has several versions" if names[tool.name] > 1 else ""


class Templates:
    """The templates that all tools share, by protocol version."""

    def __init__(self, mcp: FastMCP) -> None:
        self.wire = {version: _sdk.wire(mcp, "tools/call", version) for version in KNOWN_PROTOCOL_VERSIONS}
        self.bare = self._by_version(structured=False, wrapped=False)
        self.structured = self._by_version(structured=True, wrapped=False)
        self.wrapped = self._by_version(structured=True, wrapped=True)

    def write(self, identity: int | str, version: str, result: ToolResult) -> bytes:
        """The response with FastMCP's result of a call, as middleware gives it back.

        Raises:
            Exception: a result that the protocol version has no form for.
        """
        parts = _plain(result)
        if parts is None:
            return response(identity, self.wire[version](_tool_result(result)))
        text, content, wrapped = parts
        if content is None:
            return self.bare[version].fill(identity, text, b"")
        return (self.wrapped if wrapped else self.structured)[version].fill(identity, text, content)

    def _by_version(self, *, structured: bool, wrapped: bool) -> dict[str, Template]:
        return {version: template(wire, structured=structured, wrapped=wrapped) for version, wire in self.wire.items()}


def compile_plan(tool: PlannedTool, seconds: float, middleware: tuple[Middleware, ...], templates: Templates) -> Plan:
    """Compile a tool.

    Args:
        seconds: the time of a call.
        middleware: registered middleware that takes part in it.
    """
    wrapped = is_wrapped(tool)
    return Plan(
        tool=tool,
        call=_sdk.compiled(tool),
        parameters=len(tool.parameters.get("properties", {})),
        seconds=seconds,
        write=_write_str if wrapped and tool.return_type is str else _writer(tool, wrapped=wrapped),
        structured=templates.wrapped if wrapped else templates.structured,
        bare=templates.bare,
        templates=templates,
        middleware=middleware,
    )


def _tool_result(result: ToolResult) -> CallToolResult:
    """FastMCP's tool result as the protocol's."""
    written = result.to_mcp_result()
    if isinstance(written, CallToolResult):
        return written
    content, structured = written if isinstance(written, tuple) else (written, None)
    return CallToolResult(content=content, structured_content=structured)


def _plain(result: ToolResult) -> tuple[bytes, bytes | None, bool] | None:
    """The text and the value of a result that is no more than these, and whether FastMCP wrapped the value."""
    content, value, meta = result.content, result.structured_content, result.meta
    if result.is_error or type(result) is not ToolResult or len(content) != 1 or type(content[0]) is not TextContent:
        return None
    block = content[0]
    if block.annotations is not None or block.meta is not None or block.model_extra:
        return None
    wrapped = meta == WRAPPED and type(value) is dict and value.keys() == {"result"}
    if not (wrapped or meta is None) or isinstance(result.to_mcp_result(), CallToolResult) is not wrapped:
        return None
    if value is None:
        return encode(block.text), None, False
    return encode(block.text), encode(value["result"] if wrapped else value), wrapped


def is_wrapped(tool: FunctionTool) -> bool:
    """Whether FastMCP puts a tool's value into an object under `result`, since structured content must be one."""
    return bool((tool.output_schema or {}).get("x-fastmcp-wrap-result"))


def _write_str(value: Any) -> Written | None:
    if type(value) is not str:
        return None
    text = encode(value)
    return text, text


def _writer(tool: FunctionTool, *, wrapped: bool) -> Callable[[Any], Written | None]:
    """What `Tool.convert_result` does for results that become one text block, without the models it passes through."""
    annotation, declared = tool.return_type, tool.output_schema is not None
    usual = _PLAIN | ({annotation} if _is_record(annotation) else frozenset())

    def write(value: Any) -> Written | None:
        kind = type(value)
        if kind not in usual and not (kind in (list, tuple) and value and not _holds_media(value)):
            return None
        plain = _sdk.jsonable(value, annotation)
        is_object = type(plain) is dict
        if plain is None or plain == [] or (declared and not (wrapped or is_object)):
            return None  # the first two become no text at all
        text = encode(plain if type(plain) is str else default_serializer(plain))
        return text, encode(plain) if wrapped or is_object else None

    return write


def _is_record(annotation: Any) -> bool:
    """Whether a return type is a model or dataclass of the tool author's."""
    if not isinstance(annotation, type):
        return False
    special = (ToolResult, CallToolResult, InputRequiredResult, *_MEDIA.__args__)
    return (issubclass(annotation, BaseModel) or dataclasses.is_dataclass(annotation)) and not issubclass(
        annotation, special
    )


def _holds_media(items: Any) -> bool:
    return any(isinstance(item, _MEDIA) for item in items)
