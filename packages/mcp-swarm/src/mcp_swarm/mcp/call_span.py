"""The span of a call that is answered past FastMCP: the one that FastMCP would make, and none beside it."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from fastmcp import FastMCP
from fastmcp.server.telemetry import record_span_exception, seam_span, server_span
from fastmcp.telemetry import suppress_fastmcp_telemetry
from fastmcp.tools import Tool
from opentelemetry.trace import ProxyTracerProvider, StatusCode, get_current_span, get_tracer_provider

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


async def in_span(mcp: FastMCP, call: Call, answer: Callable[[], Awaitable[None]], tool: Tool | None = None) -> None:
    """Answer a tool's call, a request for a list, or a ping, within its span. To it `ClientGone` is no error."""
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
    with seam_span(method, mcp.name) as span, about:
        if span.is_recording():
            span.set_attributes({**component, **_attributes(call)})
        try:
            await answer()
        except ClientGone:
            gone = True
    if gone:
        raise ClientGone


async def noted_in_span(handed: Handover, result: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    """Let FastMCP finish a call within the span that there is, and note there what goes wrong.

    Args:
        handed: what has been done of the call.
        result: what FastMCP makes of it; what it raises is raised on.
    """
    span = get_current_span()
    known = next((each.error for each in (handed.body, handed.around) if each is not None), None)
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


def _attributes(call: Call) -> dict[str, str]:
    """What FastMCP finds in its own request context, which isn't there yet.

    Without a session's id: where there are none, FastMCP makes one up for each request.
    """
    caller = caller_of(call.scope)
    token = None if caller is None else caller.access_token
    known = {
        "mcp.protocol.version": call.version,
        "enduser.id": token.client_id if token else "",
        "enduser.scope": " ".join(token.scopes) if token else "",
    }
    return {name: value for name, value in known.items() if value}
