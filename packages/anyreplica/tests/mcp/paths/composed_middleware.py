"""The middleware of generated servers, by kind."""

from collections.abc import Sequence
from typing import Any

from fastmcp.exceptions import ToolError
from fastmcp.server.middleware import CallNext, MiddlewareContext
from fastmcp.tools import Tool, ToolResult
from mcp_types import CallToolRequestParams, ListToolsRequest, TextContent

from tests.mcp.paths.looks import Counting

Call = MiddlewareContext[CallToolRequestParams]
CallTool = CallNext[CallToolRequestParams, ToolResult]


class Traces(Counting):
    """Notes in the state of the request that the call has passed."""

    async def on_call_tool(self, context: Call, call_next: CallTool) -> ToolResult:
        """Note the server, before the call and after it."""
        self.runs += 1
        assert context.fastmcp_context is not None
        ctx = context.fastmcp_context
        before = await ctx.get_state("trace")
        await ctx.set_state("trace", f"{before} {self.label} {ctx.fastmcp.name}", serializable=False)
        result = await call_next(context)
        after = await ctx.get_state("trace")
        return ToolResult(content=[*result.content, TextContent(type="text", text=f"{self.label} saw {after}")])


class Watches(Counting):
    """Sees all messages and changes none."""

    async def on_message(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        """Count the message."""
        self.runs += 1
        return await call_next(context)


class Refuses(Counting):
    """Refuses the calls whose argument `x` is 2."""

    async def on_call_tool(self, context: Call, call_next: CallTool) -> ToolResult:
        """Refuse the call or pass it on."""
        self.runs += 1
        if (context.message.arguments or {}).get("x") == 2:
            raise ToolError(f"refused by {self.label}: {context.message.name}")
        return await call_next(context)


class Changes(Counting):
    """Changes the argument `x`, if it is a number."""

    async def on_call_tool(self, context: Call, call_next: CallTool) -> ToolResult:
        """Add one to the argument."""
        self.runs += 1
        given = context.message.arguments or {}
        if type(given.get("x")) is int:
            message = CallToolRequestParams(name=context.message.name, arguments={**given, "x": given["x"] + 1})
            context = context.copy(message=message)
        return await call_next(context)


class Hides(Counting):
    """Leaves the first tool out of the list."""

    async def on_list_tools(
        self, context: MiddlewareContext[ListToolsRequest], call_next: CallNext[ListToolsRequest, Sequence[Tool]]
    ) -> Sequence[Tool]:
        """Shorten the list."""
        self.runs += 1
        return list(await call_next(context))[1:]


KINDS: dict[str, type[Counting]] = {kind.__name__.lower(): kind for kind in (Traces, Watches, Refuses, Changes, Hides)}
