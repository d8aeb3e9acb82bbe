"""The trace span of a call on the fast path: the same span that FastMCP makes for a call on the FastMCP path."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from fastmcp import FastMCP
from fastmcp.server.telemetry import record_span_exception, seam_span, server_span
from fastmcp.telemetry import extract_trace_context, suppress_fastmcp_telemetry
from fastmcp.tools import Tool
from opentelemetry.context import attach, detach
from opentelemetry.trace import ProxyTracerProvider, StatusCode, get_current_span, get_tracer_provider

from anyreplica.auth.caller import caller_of
from anyreplica.components.outcome import Handover
from anyreplica.http.responses import ClientGone
from anyreplica.mcp.call import Call

_LISTED = {
    "tools/list": "tool",
    "resources/list": "resource",
    "resources/templates/list": "resource_template",
    "prompts/list": "prompt",
}
"""The component type that FastMCP's spans have for each of these methods."""


def is_on() -> bool:
    """Return whether tracing is on: this server's own tracing, or a tracer provider that a component has set."""
    return not isinstance(get_tracer_provider(), ProxyTracerProvider)


async def in_span(mcp: FastMCP, call: Call, answer: Callable[[], Awaitable[None]], tool: Tool | None = None) -> None:
    """Answer a tool call, a request for a list, or a ping inside a span.

    The parent of the span is the current span. If there is none, because the author or `opentelemetry-instrument` has
    set up tracing, it is the client's span in the message's `_meta` (SEP-414).

    If the client closes the connection, the span does not record `ClientGone` as an error.
    """
    gone = False
    method = call.request.method
    if tool is not None:
        component = tool.get_span_attributes()
        name = tool.name
        span_name = f"{method} {name}"
        about: AbstractContextManager[Any] = server_span(span_name, method, mcp.name, "tool", name, tool_name=name)
    else:
        kind = _LISTED.get(method)
        component = {"fastmcp.component.type": kind, "fastmcp.component.key": ""} if kind else {}
        about = nullcontext()
    with _beneath_client(call), seam_span(method, mcp.name) as span, about:
        if span.is_recording():
            span.set_attributes({**component, **_attributes(call)})
        try:
            await answer()
        except ClientGone:
            gone = True
    if gone:
        raise ClientGone


async def noted_in_span(handed: Handover, result: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    """Finish a call with FastMCP inside the current span, and record errors on this span.

    FastMCP makes no span of its own for this call.

    Args:
        handed: the outcomes from the fast path.
        result: FastMCP's result of the call. Its exceptions are raised unchanged.
    """
    span = get_current_span()
    known = next((each.error for each in (handed.after_body, handed.after_middleware) if each is not None), None)
    if isinstance(known, Exception):
        record_span_exception(span, known)
    try:
        with suppress_fastmcp_telemetry():
            given = await result
    except Exception as error:
        if error is not known:
            record_span_exception(span, error)
        raise
    if given.get("isError") is True and span.is_recording():
        span.set_attribute("error.type", "tool_error")
        if known is None:
            span.set_status(StatusCode.ERROR)
    return given


@contextmanager
def _beneath_client(call: Call) -> Iterator[None]:
    """Make the client's span in the message's `_meta` the current one, if there is no current one yet."""
    meta = (call.request.params or {}).get("_meta")
    token = attach(extract_trace_context(meta if isinstance(meta, dict) else None))
    try:
        yield
    finally:
        detach(token)


def _attributes(call: Call) -> dict[str, str]:
    """Return the span attributes that FastMCP reads from its request context, which does not exist on the fast path.

    Like `ctx.session_id`, `mcp.session.id` is the key of the session, and not the secret id that its client sends.
    Without sessions it is left out, because FastMCP would invent a new one for each request.
    """
    caller = caller_of(call.scope)
    token = None if caller is None else caller.access_token
    known = {
        "mcp.protocol.version": call.version,
        "mcp.session.id": call.channel.session_key(call),
        "enduser.id": token.client_id if token else "",
        "enduser.scope": " ".join(token.scopes) if token else "",
    }
    return {name: value for name, value in known.items() if value}
