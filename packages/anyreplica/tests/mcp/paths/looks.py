"""Middleware that changes a call if the call asks for the change."""

from fastmcp.exceptions import ToolError
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import ToolResult
from mcp_types import CallToolRequestParams

WISHES = ["own answer", "another tool", "another name", "more", "again", "instead"]


class Counting(Middleware):
    """Middleware that counts its runs."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.runs = 0


class Looks(Counting):
    """Middleware that takes part in all calls and changes a call that has the argument `wish`."""

    def __init__(self) -> None:
        super().__init__("middleware Looks")

    async def on_call_tool(
        self, context: MiddlewareContext[CallToolRequestParams], call_next: CallNext[CallToolRequestParams, ToolResult]
    ) -> ToolResult:
        """Change the call as the argument `wish` says."""
        self.runs += 1
        given = dict(context.message.arguments or {})
        wish = given.pop("wish", None)
        if wish not in WISHES:
            return await call_next(context)
        name = "number_huge" if wish == "another name" else context.message.name
        context = context.copy(message=CallToolRequestParams(name=name, arguments=given))
        assert context.fastmcp_context is not None
        server = context.fastmcp_context.fastmcp
        if wish == "own answer":
            return ToolResult(content="own answer")
        if wish == "another tool":
            await server.call_tool("text", {})
        try:
            result = await call_next(context)
        except ToolError:
            if wish == "again":
                return await call_next(context)
            if wish == "instead":
                return await server.call_tool("text_unicode", {})
            raise
        if wish == "more":
            result.meta = {**(result.meta or {}), "more": 10**30}
        return await call_next(context) if wish == "again" else result
