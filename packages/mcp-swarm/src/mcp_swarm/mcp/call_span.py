"""The span of a call that is answered past FastMCP: the one that FastMCP would make, and none beside it."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fastmcp import FastMCP
from fastmcp.server.telemetry import record_span_exception, seam_span, server_span
from fastmcp.telemetry import suppress_fastmcp_telemetry
from fastmcp.tools import Tool
from opentelemetry.trace import ProxyTracerProvider, Span, StatusCode, get_current_span, get_tracer_provider

from mcp_swarm.auth.caller import caller_of
from mcp_swarm.components.outcome import Handover
from mcp_swarm.http.refusal import ClientGone
from mcp_swarm.mcp.call import Call

_LISTED = {
    "tools/list": "tool",
    "resources/list": "resource",
    "resources/templates/list": "resource_template",
    "prompts/list": "prompt",
}
"""What FastMCP says that these methods are about."""


def is_on() -> bool:
    """Whether somebody takes spans: this server's own tracing, or a provider that its components have set."""
    return not isinstance(get_tracer_provider(), ProxyTracerProvider)


async def in_tool_span(mcp: FastMCP, tool: Tool, call: Call, answer: Callable[[], Awaitable[None]]) -> None:
    """Answer a tool's call within its span.

    Raises:
        ClientGone: as `answer` does; the span tells of no error then.
    """
    gone = False
    about = server_span(f"tools/call {tool.name}", "tools/call", mcp.name, "tool", tool.name, tool_name=tool.name)
    with seam_span("tools/call", mcp.name) as span, about:
        _describe(span, call, tool.get_span_attributes())
        gone = await _is_gone(answer)
    if gone:
        raise ClientGone


async def in_list_span(mcp: FastMCP, call: Call, answer: Callable[[], Awaitable[None]]) -> None:
    """Answer a request for a list, or a ping, within its span; raises as above."""
    gone = False
    method = call.request.method
    with seam_span(method, mcp.name) as span:
        about = _LISTED.get(method)
        _describe(span, call, {"fastmcp.component.type": about, "fastmcp.component.key": ""} if about else {})
        gone = await _is_gone(answer)
    if gone:
        raise ClientGone


async def _is_gone(answer: Callable[[], Awaitable[None]]) -> bool:
    try:
        await answer()
    except ClientGone:
        return True
    return False


@contextmanager
def within(handed: Handover) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Let FastMCP finish a call within the span that there is, and note there what goes wrong.

    Args:
        handed: what has been done of the call.

    Yields:
        What looks at the call's result.
    """
    span = get_current_span()
    known = next((each.error for each in (handed.body, handed.around) if each is not None), None)
    if isinstance(known, Exception):
        record_span_exception(span, known)

    def look(result: Mapping[str, Any]) -> None:
        if result.get("isError") is True and span.is_recording():
            span.set_attribute("error.type", "tool_error")
            if known is None:
                span.set_status(StatusCode.ERROR)

    with suppress_fastmcp_telemetry():
        try:
            yield look
        except Exception as error:
            if error is not known:
                record_span_exception(span, error)
            raise


def _describe(span: Span, call: Call, component: Mapping[str, Any]) -> None:
    """What FastMCP finds in its own request context, which isn't there yet.

    Without a session's id: where there are none, FastMCP makes one up for each request.
    """
    if span.is_recording():
        caller = caller_of(call.scope)
        token = None if caller is None else caller.user.access_token
        known = {
            "mcp.protocol.version": call.version,
            "enduser.id": token.client_id if token else "",
            "enduser.scope": " ".join(token.scopes) if token else "",
        }
        span.set_attributes({**component, **{name: value for name, value in known.items() if value}})
