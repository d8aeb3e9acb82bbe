"""FastMCP middleware that hides a tool from the callers that may not use it."""

from collections.abc import Callable, Iterable, Sequence

import mcp_types as mt
from fastmcp.exceptions import NotFoundError
from fastmcp.server.dependencies import get_http_request
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import Tool, ToolResult

from anyreplica.auth.caller import may_use


class Visibility(Middleware):
    """A middleware that removes tools from lists if the caller may not use them.

    A call of such a tool gets the same answer as a call of an unknown tool. The fast path checks the caller's tools
    itself.

    A mounted server needs one, too: a tool of it may call its other tools in the name of a caller, as FastMCP's search
    transforms do.

    Args:
        names: returns the names that clients use for a tool of the server that has this middleware.
    """

    def __init__(self, names: Callable[[str], Iterable[str]] = lambda name: (name,)) -> None:
        self._names = names

    async def on_list_tools(
        self, context: MiddlewareContext[mt.ListToolsRequest], call_next: CallNext[mt.ListToolsRequest, Sequence[Tool]]
    ) -> Sequence[Tool]:
        """Return only the tools that the caller may use."""
        return [tool for tool in await call_next(context) if self._is_permitted(tool.name)]

    async def on_call_tool(
        self,
        context: MiddlewareContext[mt.CallToolRequestParams],
        call_next: CallNext[mt.CallToolRequestParams, ToolResult],
    ) -> ToolResult:
        """Raise `NotFoundError` for a tool that the caller may not use, as FastMCP does for an unknown tool."""
        name = context.message.name
        if not self._is_permitted(name):
            raise NotFoundError(f"Unknown tool: {name!r}")
        return await call_next(context)

    def _is_permitted(self, name: str) -> bool:
        scope = get_http_request().scope
        return any(may_use(scope, each) for each in self._names(name))
