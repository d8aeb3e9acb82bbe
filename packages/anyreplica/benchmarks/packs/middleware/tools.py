"""A tool whose reply shows that the middleware has run."""

from contextvars import ContextVar

from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import ToolResult, tool
from mcp_types import CallToolRequestParams

_passed: ContextVar[str] = ContextVar("passed", default="no middleware")


class Marking(Middleware):
    """A middleware that leaves a mark for the tool."""

    async def on_call_tool(
        self,
        context: MiddlewareContext[CallToolRequestParams],
        call_next: CallNext[CallToolRequestParams, ToolResult],
    ) -> ToolResult:
        """Mark the call and continue."""
        token = _passed.set("middleware")
        try:
            return await call_next(context)
        finally:
            _passed.reset(token)


marking = Marking()


@tool
async def behind(message: str) -> str:
    """Return the middleware's mark and the message.

    Args:
        message: Any text.
    """
    return f"{_passed.get()} {message}"
