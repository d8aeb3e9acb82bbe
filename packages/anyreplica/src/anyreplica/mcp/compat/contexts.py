"""FastMCP's contexts of a call: they are made for each call, and their parts only at the first use.

Some values of FastMCP are made here without validation, because their parts are checked already.

This module uses private names of FastMCP and the SDK, which `tests/test_private_names.py` lists.
"""

import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from operator import attrgetter
from typing import Any, TypeVar

from fastmcp import Context, FastMCP
from fastmcp.server import context as _context
from fastmcp.server import dependencies as _dependencies
from fastmcp.server.dependencies import FastMCPRequestContext, fastmcp_request_ctx
from fastmcp.telemetry import _SUPPRESS_KEY
from fastmcp.tools import ToolResult
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.runner import _extract_meta
from mcp.server.session import ServerSession
from mcp.shared.dispatcher import Outbound
from mcp_types import CallToolRequestParams, TextContent
from opentelemetry import context as tracing
from pydantic import BaseModel
from starlette.requests import Request as HttpRequest

from anyreplica.mcp.call import Call
from anyreplica.mcp.compat.dispatch import Dispatch

_set_request_context, _set_context = fastmcp_request_ctx.set, _context._current_context.set


def serve_over_http(mcp: FastMCP) -> None:
    """Set FastMCP's context variables for all requests: this process serves only `mcp`, and only over HTTP."""
    for variable, value in _process_wide(mcp).items():
        variable.set(value)


def _process_wide(mcp: FastMCP) -> dict[ContextVar[Any], Any]:
    return {
        _context._current_transport: "streamable-http",
        _dependencies._current_server: weakref.ref(mcp),
    }


class Binding:
    """The source of FastMCP's request contexts. The parts of a context are made only when a tool reads them.

    Most tools never use their Context. Making all parts of a Context takes longer than calling the tool.

    Args:
        mcp: the server that has the tool.
        state: what the lifespan of the root server has returned.
        root: the server that got the request.
    """

    __slots__ = ("_per_call", "_reference", "_values", "mcp", "state")

    def __init__(self, mcp: FastMCP, state: Any, root: FastMCP) -> None:
        self.mcp = mcp
        self.state = state
        self._reference = weakref.ref(mcp)
        self._values = _process_wide(mcp)
        # Some variables already have these values in the whole process. A call does not set them again.
        values = {**self._values, **(root._shared_context_snapshot or {})}
        self._per_call = tuple((each.set, value) for each, value in values.items() if each.get(None) is not value)

    def bind(self, call: Call) -> Context:
        """Set the context variables of the running task for a call, and return the call's Context."""
        _set_request_context(LazyRequestContext(self, call))
        for bind, value in self._per_call:
            bind(value)
        context = CallContext(self._reference)
        _set_context(context)
        return context

    @contextmanager
    def within(self) -> Iterator[None]:
        """Inside the `with` block, the Context is one of this server, with the request and state of the one around."""
        around = _context._current_context.get()
        context = CallContext(self._reference)
        tokens = [
            (each, each.set(value)) for each, value in (*self._values.items(), (_context._current_context, context))
        ]
        if around is not None:
            context._request_state = around._request_state
        try:
            yield
        finally:
            for variable, token in reversed(tokens):
                variable.reset(token)


class CallContext(Context):
    """A FastMCP Context that makes its parts at their first use."""

    _session = None
    _task_id = None
    _origin_request_id = None
    _task_input_responses = None
    _task_request_state = None

    def __init__(self, mcp: weakref.ref[FastMCP]) -> None:
        self._fastmcp = mcp

    @cached_property
    def _tokens(self) -> list[Any]:  # type: ignore[override]
        return []

    @cached_property
    def _request_state(self) -> dict[str, Any]:  # type: ignore[override]
        return {}


class LazyRequestContext(FastMCPRequestContext):
    """FastMCP's request context, as `bind_request_context` makes it, but each part is made at its first use."""

    protocol_version = property(attrgetter("_call.version"))
    lifespan_context = property(attrgetter("_binding.state"))
    close_sse_stream = None  # nothing to close: the event stream of a reply ends with the result

    def __init__(self, binding: Binding, call: Call) -> None:
        self._binding = binding
        self._call = call

    @cached_property
    def _dispatch(self) -> Dispatch:
        return Dispatch(self._call.request, self._call.scope, self._call)

    @cached_property
    def request(self) -> HttpRequest:  # type: ignore[override]
        return self._dispatch.http_request

    @cached_property
    def session(self) -> ServerSession:  # type: ignore[override]
        dispatch = self._dispatch
        return ServerSession(dispatch, connection_of(self._call, dispatch.standalone), request_meta=self._meta)

    @cached_property
    def _srctx(self) -> ServerRequestContext[Any, Any]:  # type: ignore[override]
        request = self._call.request
        return ServerRequestContext(
            session=self.session,
            lifespan_context=self._binding.state,
            protocol_version=self._call.version,
            method=request.method,
            params=request.params,
            request_id=request.id,
            meta=_extract_meta(request.params),
            request=self.request,
        )

    @property
    def _meta(self) -> Any:
        meta = (self._call.request.params or {}).get("_meta")
        return meta if isinstance(meta, Mapping) else None

    @property
    def request_id(self) -> str:  # type: ignore[override]
        return str(self._call.request.id)

    @property
    def meta(self) -> dict[str, Any] | None:  # type: ignore[override]
        meta = self._meta
        return None if meta is None else dict(meta)


_SUPPRESSED = tracing.Context({_SUPPRESS_KEY: True})


def suppress_spans() -> None:
    """Let FastMCP make no spans in the rest of this task, as its `suppress_fastmcp_telemetry` does in a block."""
    current = tracing.get_current()
    tracing.attach(tracing.set_value(_SUPPRESS_KEY, True, current) if current else _SUPPRESSED)


def connection_of(call: Call, outbound: Outbound) -> Connection:
    """Return the SDK's connection for one call."""
    if call.modern:
        return Connection.from_envelope(call.version, *call.client, outbound=outbound)
    return call.channel.connection(call, outbound)


def left_open() -> Connection | None:
    """Return the connection of the running call, if a middleware has left there what must end with the call."""
    context = fastmcp_request_ctx.get(None)
    session = None if context is None else vars(context).get("session")
    connection: Connection | None = getattr(session, "_connection", None)
    return connection if connection is not None and needs_cleanup(connection) else None


def needs_cleanup(connection: Connection) -> bool:
    """Return whether something in a connection's exit stack must end with it."""
    stack = vars(connection).get("exit_stack")
    return stack is not None and bool(stack._exit_callbacks)


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
