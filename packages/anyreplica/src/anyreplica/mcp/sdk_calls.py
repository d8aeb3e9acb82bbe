"""SDK middleware for servers of the MCP SDK: limits of calls, tools that a caller may use, and errors of prompts.

For FastMCP servers, `CallLimits`, `Visibility` and the preparation of components do the same.
"""

import logging
from typing import Any

from fastmcp.exceptions import FastMCPError
from fastmcp.exceptions import ValidationError as InvalidArguments
from fastmcp.server.dependencies import bind_request_context
from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, CallToolResult, TextContent
from pydantic import ValidationError

from anyreplica.auth.caller import Caller, caller_of
from anyreplica.components.arguments import check_model
from anyreplica.components.call_limits import bounded
from anyreplica.mcp import _sdk
from anyreplica.mcp._sdk_server import SdkServer

logger = logging.getLogger(__name__)

_KINDS = {
    "tools/call": ("tool", "name"),
    "resources/read": ("resource", "uri"),
    "prompts/get": ("prompt", "name"),
    "completion/complete": ("prompt", ""),
}
"""The kind of component that a method calls, and the parameter with its name."""
_LONGEST_NAME = 200


class SdkCalls:
    """The SDK middleware. It is outside the author's own middleware.

    Args:
        seconds: time limit of a call.
    """

    def __init__(self, mcp: SdkServer, seconds: float) -> None:
        self._mcp = mcp
        self._seconds = seconds

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Answer a request or handle a notification."""
        with bind_request_context(ctx):  # tasks of the author's code are then `ExitProof`
            if ctx.request_id is None:
                return await call_next(ctx)
            caller = caller_of(ctx.request.scope) if ctx.request is not None else None
            if ctx.method == "tools/list":
                return _permitted(await call_next(ctx), caller)
            if ctx.method not in _KINDS:
                return await call_next(ctx)
            return await self._call(ctx, call_next, caller)

    async def _call(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext, caller: Caller | None
    ) -> HandlerResult:
        kind, parameter = _KINDS[ctx.method]
        named = (ctx.params or {}).get(parameter) if parameter else "completion"
        name = named[:_LONGEST_NAME] if isinstance(named, str) else ""
        if kind == "tool" and caller is not None and isinstance(named, str) and not caller.may_use(named):
            return self._failed(ctx, f"Unknown tool: {name}")  # as `MCPServer` answers the call of an unknown tool
        tool = self._mcp.tool_named(name) if kind == "tool" else None
        arguments = (ctx.params or {}).get("arguments")
        try:
            if tool is not None and isinstance(arguments, dict):
                check_model(tool, arguments)
            return await bounded(call_next(ctx), kind, name, self._seconds)
        except FastMCPError as error:  # `bounded` has logged the reason
            if isinstance(error, MCPError):  # the call could not ask its client
                raise
            if isinstance(error, InvalidArguments):
                return self._failed(ctx, f"Error executing tool {name}: {error}")
            if kind == "tool":
                return self._failed(ctx, str(error))
            raise MCPError(INTERNAL_ERROR, str(error)) from None
        except ValueError as error:
            if ctx.method == "prompts/get" and self._mcp.has_components and type(error) is ValueError:
                raise _of_prompt(error) from error
            raise

    def _failed(self, ctx: ServerRequestContext[Any, Any], text: str) -> HandlerResult:
        result = CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)
        return _sdk.wire(self._mcp, "tools/call", ctx.protocol_version)(result)


def _permitted(result: HandlerResult, caller: Caller | None) -> HandlerResult:
    """Return a list of tools without those that the caller may not use."""
    if caller is None or caller.tools is None or not isinstance(result, dict) or "tools" not in result:
        return result
    return {**result, "tools": [tool for tool in result["tools"] if caller.may_use(tool["name"])]}


def _of_prompt(error: ValueError) -> MCPError:
    """Return the protocol error for an error of `MCPServer.get_prompt`, whose text is meant for the client.

    The SDK sends this text to clients of the handshake protocol only, with the code 0.
    """
    reason = error.__cause__.__cause__ if error.__cause__ is not None else None
    if reason is None or isinstance(reason, ValidationError):  # an unknown prompt, or wrong arguments
        return MCPError(INVALID_PARAMS, str(error))
    logger.error("%s", error, exc_info=reason)
    return MCPError(INTERNAL_ERROR, str(error))
