"""A prompt asked for without a required argument: the caller's mistake, and told so."""

from fastmcp.prompts import PromptResult
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from mcp import MCPError
from mcp_types import INVALID_PARAMS, GetPromptRequestParams


class RequirePromptArguments(Middleware):
    """Answer with -32602 and the names; FastMCP would say that rendering failed, and log a traceback."""

    async def on_get_prompt(
        self,
        context: MiddlewareContext[GetPromptRequestParams],
        call_next: CallNext[GetPromptRequestParams, PromptResult],
    ) -> PromptResult:
        """Check the arguments' names; their values are the prompt's to check."""
        server = context.fastmcp_context
        prompt = await server.fastmcp.get_prompt(context.message.name) if server else None
        wanted = [argument.name for argument in (prompt.arguments if prompt else None) or () if argument.required]
        missing = [name for name in wanted if name not in (context.message.arguments or {})]
        if missing:
            raise MCPError(INVALID_PARAMS, f"Missing required arguments: {', '.join(missing)}")
        return await call_next(context)
