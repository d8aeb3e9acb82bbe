"""A tool compiled for the fast path: what it takes to validate a call, run it, and write its result."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from fastmcp import FastMCP
from fastmcp.server.middleware import Middleware
from fastmcp.tools import ToolResult
from fastmcp.tools.base import default_serializer
from fastmcp.utilities.types import Audio, File, Image
from mcp_types import CallToolResult, ContentBlock, InputRequiredResult, TextContent
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from mcp_swarm.components.outcome import PlannedTool
from mcp_swarm.http.responses import encode, response
from mcp_swarm.mcp import _sdk

_TEXT = "the text goes here"
_VALUE = "the value goes here"

_HEAD = b'{"jsonrpc":"2.0","id":'

_WRAPPED = {"fastmcp": {"wrap_result": True}}
"""The `_meta` with which FastMCP marks structured content that it put into an object under `result`."""

_MEDIA = ContentBlock | Audio | Image | File
_PLAIN = frozenset({str, int, float, bool, dict})

WrittenResult = tuple[bytes, bytes | None]
"""A result's text and its structured content, both as JSON; None if there is no such content."""


class Template:
    """The parts of a JSON-RPC response around its id, its text and its structured content, in this order.

    They are a reply that the FastMCP path would write, cut where a text and a value stand.

    Args:
        wire: makes of a result what the SDK sends in some protocol version.
        structured: whether there is structured content at all; if not, `fill` takes an empty value.
        wrapped: whether the value is put into an object under `result`.
    """

    __slots__ = ("end", "middle", "start")

    def __init__(self, wire: Callable[[Any], dict[str, Any]], *, structured: bool, wrapped: bool) -> None:
        content = {"result" if wrapped else "value": _VALUE}
        result = wire(
            CallToolResult(
                content=[TextContent(type="text", text=_TEXT)],
                structured_content=content if structured else None,
                _meta=_WRAPPED if wrapped else None,
            )
        )
        if structured:  # it goes behind the text
            result["structuredContent"] = result.pop("structuredContent")
        before, after = encode(result).split(encode(_TEXT))
        self.start = b',"result":' + before
        self.middle, end = after.split(encode(_VALUE if wrapped else content)) if structured else (after, b"")
        self.end = end + b"}"

    def fill(self, identity: int | str, text: bytes, value: bytes) -> bytes:
        """The whole response; `text` and `value` are JSON."""
        written = str(identity).encode() if type(identity) is int else encode(identity)
        return b"".join((_HEAD, written, self.start, text, self.middle, value, self.end))


class Templates:
    """The templates that all tools share, by protocol version."""

    def __init__(self, mcp: FastMCP) -> None:
        self.wire = {version: _sdk.wire(mcp, "tools/call", version) for version in KNOWN_PROTOCOL_VERSIONS}
        self.bare = self._by_version(structured=False, wrapped=False)
        self.structured = self._by_version(structured=True, wrapped=False)
        self.wrapped = self._by_version(structured=True, wrapped=True)

    def write(self, identity: int | str, version: str, result: ToolResult) -> bytes:
        """The response with a result that middleware gives back; raises if the version has no form for it."""
        parts = _plain(result)
        if parts is None:
            return response(identity, self.wire[version](_tool_result(result)))
        text, content, wrapped = parts
        if content is None:
            return self.bare[version].fill(identity, text, b"")
        return (self.wrapped if wrapped else self.structured)[version].fill(identity, text, content)

    def _by_version(self, *, structured: bool, wrapped: bool) -> dict[str, Template]:
        return {version: Template(wire, structured=structured, wrapped=wrapped) for version, wire in self.wire.items()}


class Plan:
    """How to call one tool.

    Attributes:
        parameters: how many arguments a call has at most.
        seconds: the time of a call.
        write: writes a result; returns None for one of an unusual kind.
        structured: replies with structured content, by protocol version.
        middleware: registered middleware that takes part in a call, outermost first.
    """

    def __init__(
        self, tool: PlannedTool, seconds: float, middleware: tuple[Middleware, ...], templates: Templates
    ) -> None:
        # FastMCP puts a value into an object under `result`, where structured content would be none otherwise.
        wrapped = bool((tool.output_schema or {}).get("x-fastmcp-wrap-result"))
        self.tool = tool
        self.call = _sdk.compiled(tool)
        self.parameters = len(tool.parameters.get("properties", {}))
        self.seconds = seconds
        self.write = _write_str if wrapped and tool.return_type is str else _writer(tool, wrapped=wrapped)
        self.structured: Mapping[str, Template] = templates.wrapped if wrapped else templates.structured
        self.templates = templates
        self.middleware = middleware


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
    wrapped = meta == _WRAPPED and type(value) is dict and value.keys() == {"result"}
    if not (wrapped or meta is None) or isinstance(result.to_mcp_result(), CallToolResult) is not wrapped:
        return None
    if value is None:
        return encode(block.text), None, False
    return encode(block.text), encode(value["result"] if wrapped else value), wrapped


def _write_str(value: Any) -> WrittenResult | None:
    if type(value) is not str:
        return None
    text = encode(value)
    return text, text


def _writer(tool: PlannedTool, *, wrapped: bool) -> Callable[[Any], WrittenResult | None]:
    """What `Tool.convert_result` does for results that become one text block, without the models it passes through."""
    annotation, declared = tool.return_type, tool.output_schema is not None
    usual = _PLAIN | ({annotation} if _is_record(annotation) else frozenset())

    def write(value: Any) -> WrittenResult | None:
        kind = type(value)
        if kind not in usual and (
            kind not in (list, tuple) or not value or any(isinstance(item, _MEDIA) for item in value)
        ):
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
    special = (ToolResult, CallToolResult, InputRequiredResult, *_MEDIA.__args__)
    if not isinstance(annotation, type) or issubclass(annotation, special):
        return False
    return issubclass(annotation, BaseModel) or dataclasses.is_dataclass(annotation)
