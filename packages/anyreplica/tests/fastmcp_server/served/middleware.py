"""A middleware that shows which servers a call has passed."""

from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import ToolResult
from mcp_types import CallToolRequestParams, TextContent


class Stamp(Middleware):
    """Adds its name to the text of a tool whose arguments ask for stamps."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def on_call_tool(
        self, context: MiddlewareContext[CallToolRequestParams], call_next: CallNext[CallToolRequestParams, ToolResult]
    ) -> ToolResult:
        """Call the tool and stamp its text."""
        result = await call_next(context)
        if "stamped" not in (context.message.arguments or {}):
            return result
        (content,) = result.content
        assert isinstance(content, TextContent)
        text = f"{content.text}, {self.name}"
        return ToolResult(content=text, structured_content={"result": text}, meta=result.meta)
