"""The call plan of a tool: prepared functions that validate a call, run the tool, and write the response."""

import dataclasses
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, get_args, is_typeddict

from fastmcp import FastMCP
from fastmcp.server.middleware import Middleware
from fastmcp.tools import ToolResult
from fastmcp.utilities.types import Audio, File, Image
from mcp_types import CallToolResult, ContentBlock, InputRequiredResult, TextContent
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS
from pydantic import BaseModel
from pydantic_core import to_json

from anyreplica.components.asking import finds_context
from anyreplica.components.json_results import check_tool_result, check_value, serializer_of
from anyreplica.components.outcome import PlannedTool
from anyreplica.components.output_schema import OutputSchema
from anyreplica.http.responses import encode, response
from anyreplica.mcp.compat import contexts, sdk

_TEXT = "the text goes here"
_VALUE = "the value goes here"

_HEAD = b'{"jsonrpc":"2.0","id":'

_WRAPPED = {"fastmcp": {"wrap_result": True}}
"""The `_meta` of a result if FastMCP has put the value into an object, under the key `result`."""

_MEDIA = ContentBlock | Audio | Image | File
_PLAIN = frozenset({str, int, float, bool, dict})

HOOKS = ("__call__", "on_message", "on_request")
"""The methods of a middleware that see all requests."""

MiddlewareCall = Callable[..., Awaitable[Any]]
"""A middleware, or a method of it. The arguments are a context and `call_next`."""

WrittenResult = tuple[bytes, bytes | None]
"""The text of a result and its structured content, both as JSON. The second part is None without structured content."""


class Template:
    """The constant parts of a JSON-RPC response around its id, its text and its structured content, in this order.

    The parts come from a response as the FastMCP path writes it, cut at the text and at the value.

    Args:
        wire: converts a result to the form of one protocol version.
        structured: whether the result has structured content. Without it, `fill` gets an empty value.
        wrapped: whether the value is inside an object, under the key `result`.
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
        if structured:  # move the structured content behind the text
            result["structuredContent"] = result.pop("structuredContent")
        before, after = encode(result).split(encode(_TEXT))
        self.start = b',"result":' + before
        self.middle, end = after.split(encode(_VALUE if wrapped else content)) if structured else (after, b"")
        self.end = end + b"}"

    def fill(self, identity: int | str, text: bytes, value: bytes) -> bytes:
        """Return the whole response. `text` and `value` are JSON."""
        written = str(identity).encode() if type(identity) is int else encode(identity)
        return b"".join((_HEAD, written, self.start, text, self.middle, value, self.end))


class Templates:
    """The templates that all tools share, by protocol version."""

    def __init__(self, mcp: FastMCP) -> None:
        self.wire = {version: sdk.wire(mcp, "tools/call", version) for version in KNOWN_PROTOCOL_VERSIONS}
        self.bare = self._by_version(structured=False, wrapped=False)
        self.structured = self._by_version(structured=True, wrapped=False)
        self.wrapped = self._by_version(structured=True, wrapped=True)

    def write(self, identity: int | str, version: str, result: ToolResult) -> bytes:
        """Return the response with a result that middleware returned.

        Raises an exception if the protocol version has no form for the result.
        """
        parts = _plain(result)
        if parts is None:
            return response(identity, self.wire[version](_tool_result(result)))
        text, content, wrapped = parts
        if content is None:
            return self.bare[version].fill(identity, text, b"")
        return (self.wrapped if wrapped else self.structured)[version].fill(identity, text, content)

    def _by_version(self, *, structured: bool, wrapped: bool) -> dict[str, Template]:
        return {version: Template(wire, structured=structured, wrapped=wrapped) for version, wire in self.wire.items()}


def overrides(middleware: Middleware, hooks: tuple[str, ...]) -> bool:
    """Return whether a middleware has its own version of one of these methods.

    A hook may also be an attribute of the object: FastMCP looks it up there.
    """
    if "__call__" in hooks and type(middleware).__call__ is not Middleware.__call__:
        return True
    found = ((getattr(middleware, hook), getattr(Middleware, hook)) for hook in hooks if hook != "__call__")
    return any(getattr(own, "__func__", None) is not base for own, base in found)


def steps_of(middleware: tuple[Middleware, ...]) -> tuple[MiddlewareCall, ...]:
    """Return how to call each middleware around a tool call, outermost first.

    The outermost one gets the call as it arrived. If it has no hook for all methods, FastMCP would only call
    `on_call_tool`, after six coroutines that do nothing. The others are called as FastMCP does it, because the
    middleware before them may change the method.
    """
    if not middleware or overrides(middleware[0], HOOKS):
        return middleware
    return (middleware[0].on_call_tool, *middleware[1:])


class Plan:
    """The call plan of one tool.

    Attributes:
        call: validates the arguments and calls the tool's function. `write` refuses an invalid result.
        parameters: maximum number of arguments of a call.
        seconds: time limit of a call.
        write: writes a result as JSON. It returns None for an unusual kind of result.
        convert: converts a result to FastMCP's tool result, for middleware.
        structured: templates of responses with structured content, by protocol version.
        middleware: registered middleware that takes part in calls, outermost first.
        steps: how to call each middleware.
        server: the server that has the tool. It may be mounted in the server that the clients see.
        needs_session: whether the tool or the middleware may use the session of the call.
    """

    def __init__(
        self,
        tool: PlannedTool,
        seconds: float,
        middleware: tuple[Middleware, ...],
        templates: Templates,
        server: FastMCP,
    ) -> None:
        output = tool.output
        # Structured content must be an object. FastMCP puts any other value into an object, under the key `result`.
        wrapped = output is not None and output.wraps
        self.tool = tool
        self.call = sdk.compiled(tool, tool.direct_function)
        self.parameters = len(tool.parameters.get("properties", {}))
        self.seconds = seconds
        returns_str = output is not None and output.is_text
        self.write = _write_str if returns_str else _writer(tool, output)
        self.convert = partial(_convert_str, tool) if returns_str else tool.convert
        self.structured: Mapping[str, Template] = templates.wrapped if wrapped else templates.structured
        self.templates = templates
        self.middleware = middleware
        self.steps = steps_of(middleware)
        self.server = server
        self.needs_session = bool(middleware) or sdk.injects(tool) or finds_context(tool)


@dataclass(frozen=True, slots=True)
class DirectPlan:
    """The plan of a call that FastMCP's `call_tool` answers, without the steps of the SDK around it.

    Attributes:
        name: name of the tool.
        seconds: time limit of a call.
        steps: how to call each middleware that takes part in calls, outermost first.
    """

    name: str
    seconds: float
    steps: tuple[MiddlewareCall, ...]
    templates: Templates


def _tool_result(result: ToolResult) -> CallToolResult:
    """Convert FastMCP's tool result to the protocol's type."""
    written = result.to_mcp_result()
    if isinstance(written, CallToolResult):
        return written
    content, structured = written if isinstance(written, tuple) else (written, None)
    return CallToolResult(content=content, structured_content=structured)


def _plain(result: ToolResult) -> tuple[bytes, bytes | None, bool] | None:
    """Return text, value and whether FastMCP wrapped the value; return None if the result has any other part."""
    content, value, meta = result.content, result.structured_content, result.meta
    if result.is_error or type(result) is not ToolResult or len(content) != 1 or type(content[0]) is not TextContent:
        return None
    block = content[0]
    if block.annotations is not None or block.meta is not None or block.model_extra:
        return None
    wrapped = meta == _WRAPPED and type(value) is dict and len(value) == 1 and "result" in value
    if not (wrapped or meta is None) or contexts.has_raw_result(result):
        return None
    text = encode(block.text)
    if value is None:
        return text, None, False
    inner: Any = value["result"] if wrapped else value
    return text, text if inner is block.text else encode(inner), wrapped


def _convert_str(tool: PlannedTool, value: Any) -> ToolResult:
    """Convert a text like `tool.convert`, without the validation that a text does not need."""
    if type(value) is not str:
        return tool.convert(value)
    return contexts.text_result(value)


def _write_str(value: Any) -> WrittenResult | None:
    if type(value) is not str:
        return None
    text = _encode_text(value)
    return text, text


def _encode_text(text: str) -> bytes:
    """Encode a text as JSON; raise ValueError if it is not Unicode."""
    if not text.isascii():
        text.encode()
    return encode(text)


def _writer(tool: PlannedTool, output: OutputSchema | None) -> Callable[[Any], WrittenResult | None]:
    """Return a function with the effect of `PlannedTool.convert` for results that become one text block.

    The function writes the JSON text itself, without the pydantic models of `convert`. For other results, and for those
    that do not match the output schema, it returns None. Then `convert` makes the answer.

    Raises (the returned function):
        ValueError: the value cannot be written as JSON.
    """
    annotation = tool.return_type
    usual = _PLAIN | ({annotation} if _is_record(annotation) else frozenset())
    to_plain = serializer_of(annotation)
    declared, wrapped = output is not None, output is not None and output.wraps
    may_lose = _has_undeclared(annotation)
    if output is not None:
        _ = output.has_type  # made here, and not in the first call

    def write(value: Any) -> WrittenResult | None:
        kind = type(value)
        if kind not in usual and (
            kind not in (list, tuple) or not value or any(isinstance(item, _MEDIA) for item in value)
        ):
            return None
        plain = to_plain(value, mode="json")
        is_object = type(plain) is dict
        if plain is None or plain == [] or (declared and not (wrapped or is_object)):
            return None  # None and [] have no text, and an output schema needs an object: the FastMCP path answers
        if output is not None and not output.has_type(value) and output.problem(plain):
            return None
        if type(plain) is str:
            text = _encode_text(plain)
        else:
            written = to_json(plain)
            if b"NaN" in written or b"Infinity" in written:
                check_value(plain)  # a number, or part of a text
            if may_lose and b"null" in written:
                check_tool_result(value)  # pydantic writes null for NaN and infinities in values of no declared type
            text = encode(written.decode())
        return text, encode(plain) if wrapped or is_object else None

    return write


def _has_undeclared(annotation: Any) -> bool:
    """Return whether a result of a return type may have values of no declared type, outside of models."""
    if annotation in (Any, object, inspect.Signature.empty, None, ..., dict, list, tuple, set) or is_typeddict(
        annotation
    ):
        return True
    return isinstance(annotation, str) or any(map(_has_undeclared, get_args(annotation)))


def _is_record(annotation: Any) -> bool:
    """Return whether a return type is a pydantic model or dataclass of the tool author."""
    special = (ToolResult, CallToolResult, InputRequiredResult, *_MEDIA.__args__)
    if not isinstance(annotation, type) or issubclass(annotation, special):
        return False
    return issubclass(annotation, BaseModel) or dataclasses.is_dataclass(annotation)
