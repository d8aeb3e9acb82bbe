"""Tools that a caller may not use don't exist for it."""

from collections.abc import Sequence

import mcp_types as mt
from fastmcp.exceptions import NotFoundError
from fastmcp.server.dependencies import get_http_request
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import Tool, ToolResult

from mcp_swarm.auth.caller import may_use


class Visibility(Middleware):
    """Leaves other tools than the caller's out of lists, and answers calls of them as of tools that there aren't.

    The fast path looks at the caller's tools itself.
    """

    async def on_list_tools(
        self, context: MiddlewareContext[mt.ListToolsRequest], call_next: CallNext[mt.ListToolsRequest, Sequence[Tool]]
    ) -> Sequence[Tool]:
        """Filter a list."""
        scope = get_http_request().scope
        return [tool for tool in await call_next(context) if may_use(scope, tool.name)]

    async def on_call_tool(
        self,
        context: MiddlewareContext[mt.CallToolRequestParams],
        call_next: CallNext[mt.CallToolRequestParams, ToolResult],
    ) -> ToolResult:
        """Refuse a call of what isn't there for this caller, as FastMCP does: with `NotFoundError`."""
        name = context.message.name
        if not may_use(get_http_request().scope, name):
            raise NotFoundError(f"Unknown tool: {name!r}")
        return await call_next(context)
