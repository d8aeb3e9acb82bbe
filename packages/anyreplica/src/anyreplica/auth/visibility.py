"""FastMCP middleware that hides a tool from the callers that may not use it."""

from collections.abc import Sequence

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
    """

    async def on_list_tools(
        self, context: MiddlewareContext[mt.ListToolsRequest], call_next: CallNext[mt.ListToolsRequest, Sequence[Tool]]
    ) -> Sequence[Tool]:
        """Return only the tools that the caller may use."""
        scope = get_http_request().scope
        return [tool for tool in await call_next(context) if may_use(scope, tool.name)]

    async def on_call_tool(
        self,
        context: MiddlewareContext[mt.CallToolRequestParams],
        call_next: CallNext[mt.CallToolRequestParams, ToolResult],
    ) -> ToolResult:
        """Raise `NotFoundError` for a tool that the caller may not use, as FastMCP does for an unknown tool."""
        name = context.message.name
        if not may_use(get_http_request().scope, name):
            raise NotFoundError(f"Unknown tool: {name!r}")
        return await call_next(context)
