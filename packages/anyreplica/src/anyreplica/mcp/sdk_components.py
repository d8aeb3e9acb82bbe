"""The start of a server of the MCP SDK: its threads, limits and request states, and what it does not get.

The SDK's app checks the headers `Mcp-Param-*` before each call of a tool, and so does this module. The lists of a
low-level `Server` are code of its author, so they may differ for each caller, and nothing reads them earlier.
"""

import functools
import inspect
import logging
from collections.abc import Iterator, Mapping
from typing import Any

from fastmcp import FastMCP
from fastmcp.exceptions import FastMCPError
from fastmcp.exceptions import ValidationError as InvalidArguments
from fastmcp.server.dependencies import bind_request_context
from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver.prompts import Prompt
from mcp.server.mcpserver.resources import FunctionResource, ResourceTemplate
from mcp.server.mcpserver.tools import Tool
from mcp.server.runner import aclose_shielded
from mcp.shared.inbound import MCP_PARAM_HEADER_PREFIX, validate_mcp_param_headers
from mcp.shared.jsonrpc_dispatcher import handler_exception_to_error_data
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    PROTOCOL_VERSION_META_KEY,
    CallToolResult,
    TextContent,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from starlette.types import Scope

from anyreplica.auth.caller import Caller, caller_of
from anyreplica.components.arguments import check_model
from anyreplica.components.asking import asks
from anyreplica.components.call_limits import bounded
from anyreplica.components.discovery import Discovered, discover
from anyreplica.http.responses import ClientGone
from anyreplica.mcp import request_state
from anyreplica.mcp.call import HandlerFailed
from anyreplica.mcp.compat import sdk
from anyreplica.mcp.compat.dispatch import SdkDispatch
from anyreplica.mcp.compat.sdk_server import SdkServer
from anyreplica.mcp.compat.threads import Threads
from anyreplica.mcp.message import Request
from anyreplica.mcp.server_setup import ServerSetup
from anyreplica.settings import CoreSettings
from anyreplica.settings.errors import StartupError

logger = logging.getLogger(__name__)

_MOST_PAGES = 100
"""Maximum number of pages of the list in which a tool is searched. The SDK has the same limit."""

_PREFIX = MCP_PARAM_HEADER_PREFIX.lower()
_SKIPPED = "Mcp-Param headers are not checked: "


async def check_param_headers(mcp: SdkServer, ctx: ServerRequestContext[Any, Any], seconds: float) -> None:
    """Check the headers of a tool call of the stateless protocol against the arguments that they repeat.

    Args:
        seconds: time limit of the server's code.

    Raises:
        MCPError: code -32020, a header does not match its argument.
        FastMCPError: the time limit ended.
    """
    params, request = ctx.params or {}, ctx.request
    name, arguments = params.get("name"), params.get("arguments")
    if request is None or not isinstance(name, str) or not isinstance(arguments, Mapping | None):
        return
    if not arguments and not any(header.startswith(_PREFIX) for header in request.headers):
        return
    schema = None
    server = sdk.low_level(mcp)
    try:
        if server.get_tool_input_schema is not None:
            schema = server.get_tool_input_schema(name)
        elif server.get_request_handler("tools/list") is not None:
            schema = await bounded(_listed_schema(mcp, ctx, name, request.scope), "tool", name, seconds)
    except FastMCPError:
        raise
    except Exception:  # an error of the server's code does not fail the call
        logger.exception("%sthe server's code has failed", _SKIPPED)
    rejection = None if schema is None else validate_mcp_param_headers(schema, arguments or {}, request.headers)
    if rejection is not None:
        raise MCPError(rejection.code, rejection.message, rejection.data)


async def _listed_schema(mcp: SdkServer, ctx: ServerRequestContext[Any, Any], name: str, scope: Scope) -> Any:
    """Return the input schema of a tool in the list that this caller gets."""
    identity = 0 if ctx.request_id is None else ctx.request_id
    client = ((ctx.params or {}).get("_meta") or {}).get
    kept = (PROTOCOL_VERSION_META_KEY, CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY)
    params: dict[str, Any] = {"_meta": {key: client(key) for key in kept if client(key) is not None}}
    cursors = set[str]()
    for _ in range(_MOST_PAGES):
        dispatch = SdkDispatch(Request(identity, "tools/list", params, 0), scope)
        about = client(CLIENT_INFO_META_KEY), client(CLIENT_CAPABILITIES_META_KEY)
        runner = sdk.runner_of(mcp, ctx.lifespan_context, ctx.protocol_version, about)
        try:
            result = await runner.on_request(dispatch, "tools/list", params)
        finally:
            del runner.on_request  # the cached method would keep the runner in a reference cycle
            await aclose_shielded(runner.connection)
        for tool in result.get("tools", ()):
            if tool.get("name") == name:
                return tool.get("inputSchema")
        cursor = result.get("nextCursor")
        if not isinstance(cursor, str):
            return None
        if cursor in cursors:
            break
        cursors.add(cursor)
        params = {**params, "cursor": cursor}
    logger.warning("%stools/list does not end", _SKIPPED)
    return None


_KINDS = {
    "tools/call": ("tool", "name"),
    "resources/read": ("resource", "uri"),
    "prompts/get": ("prompt", "name"),
    "completion/complete": ("prompt", ""),
}
"""The kind of component that a method calls, and the parameter with its name."""

_LONGEST_NAME = 200

_NO_CODE = 0
"""The code with which the SDK sends the errors of the server's code to clients of the handshake protocol."""


class SdkCalls:
    """Middleware of the SDK: limits of calls, tools that a caller may use, and errors of the server's code.

    It is outside the author's own middleware. For FastMCP servers, `CallLimits`, `Visibility` and the preparation of
    components do the same.

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
            try:
                return await self._answer(ctx, call_next)
            except ClientGone:
                raise
            except Exception as error:
                if self._mcp.hides_errors or _is_modern(ctx) or handler_exception_to_error_data(error) is not None:
                    raise
                logger.exception("%s: the server's code has failed", ctx.method)
                raise HandlerFailed(_NO_CODE, str(error)) from error

    async def _answer(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        caller = caller_of(ctx.request.scope) if ctx.request is not None else None
        if ctx.method == "tools/list":
            result = await call_next(ctx)
            self._mcp.note_listed(result)
            return _permitted(result, caller)
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
            if kind == "tool" and _is_modern(ctx):
                await check_param_headers(self._mcp, ctx, self._seconds)
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
                raise _of_prompt(error, is_modern=_is_modern(ctx)) from error
            raise

    def _failed(self, ctx: ServerRequestContext[Any, Any], text: str) -> HandlerResult:
        result = CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)
        return sdk.wire(self._mcp, "tools/call", ctx.protocol_version)(result)


def _permitted(result: HandlerResult, caller: Caller | None) -> HandlerResult:
    """Return a list of tools without those that the caller may not use."""
    if caller is None or caller.tools is None or not isinstance(result, dict) or "tools" not in result:
        return result
    return {**result, "tools": [tool for tool in result["tools"] if caller.may_use(tool["name"])]}


def _is_modern(ctx: ServerRequestContext[Any, Any]) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def _of_prompt(error: ValueError, *, is_modern: bool) -> MCPError:
    """Return the protocol error for an error of `MCPServer.get_prompt`, whose text is meant for the client.

    The SDK sends this text to clients of the handshake protocol only. The others get the text here, too, with the code
    that the specification has for the error.
    """
    reason = error.__cause__.__cause__ if error.__cause__ is not None else None
    if reason is None or isinstance(reason, ValidationError):  # an unknown prompt, or wrong arguments
        return MCPError(INVALID_PARAMS if is_modern else _NO_CODE, str(error))
    logger.error("%s", error, exc_info=reason)
    return HandlerFailed(INTERNAL_ERROR if is_modern else _NO_CODE, str(error))


def serve_sdk_server(mcp: SdkServer, settings: CoreSettings) -> tuple[Discovered, ServerSetup]:
    """Prepare a server of the SDK for replicas.

    Raises:
        StartupError: a pack of `MCP_COMPONENTS` has a part that only a FastMCP server can serve.
    """
    chosen = "mcp_components" in settings.model_fields_set  # the default is for servers of the template
    discovered = discover(settings if chosen else settings.model_copy(update={"mcp_components": ()}), Threads)
    for what in _only_for_fastmcp(discovered):
        packs = ",".join(settings.mcp_components)
        raise StartupError(
            f"MCP_COMPONENTS={packs}: {what} is not served, because the server is of the MCP SDK ({mcp.kind}); "
            "only a FastMCP server gets the components of packs"
        )
    mcp.prepare(functools.partial(_with_threads, settings.tool_threads))
    mcp.seal_states(request_state.security(settings), settings.mcp_name)
    chain = sdk.low_level(mcp).middleware
    chain[:] = [each for each in chain if not isinstance(each, SdkCalls)]  # of another app with the same server
    sdk.insert_middleware(mcp, SdkCalls(mcp, settings.call_timeout_seconds))
    # The setup has nothing to do: there are no components of FastMCP and no mounted servers.
    return discovered, ServerSetup(
        mcp, discovered.preparation.prepare, shows_errors=settings.debug_errors, limits_tools=False
    )


def asking(mcp: SdkServer) -> list[str]:
    """Return the names of the components that may ask the client in the middle of a call."""
    found = [each for each in mcp.components if isinstance(each, Tool | ResourceTemplate | Prompt)]
    return sorted(each.name for each in found if asks(each.fn) or getattr(each, "resolved_params", None))


def log_notes(mcp: FastMCP, settings: CoreSettings) -> None:
    """Log what has no effect, see `notes`."""
    for note in notes(mcp, settings) if isinstance(mcp, SdkServer) else ():
        logger.warning("%s", note)


def notes(mcp: SdkServer, settings: CoreSettings) -> Iterator[str]:
    """Yield a sentence for each setting and each part of the server that has no effect with several replicas."""
    if settings.handshake_sessions == "full":
        yield (
            f"HANDSHAKE_SESSIONS=full: a server of the MCP SDK ({mcp.kind}) has no log level and no subscriptions of "
            "sessions, unless its own code keeps them, for one replica"
        )
    if settings.debug_errors:
        yield (
            f"DEBUG_ERRORS: a server of the MCP SDK ({mcp.kind}) chooses the texts of its tools' errors itself; other "
            "exceptions have their text for clients of the handshake protocol only"
        )
    if not settings.is_single and mcp.has_own_subscriptions:
        yield (
            "subscriptions/listen: the server's own code delivers the changes; "
            "make sure that it delivers them to the clients of all replicas"
        )


def _only_for_fastmcp(discovered: Discovered) -> Iterator[str]:
    for item in discovered.components:
        yield f"{item.where}: {item.component.name}"
    for name in discovered.jobs:
        yield f"the job {name!r}"
    for middleware in discovered.middleware:
        yield f"the middleware {type(middleware).__name__}"
    for where, _ in discovered.parts:
        yield where
    if discovered.completion is not None:
        yield "the function with @completion"


def _with_threads(threads: int, component: Any) -> Any:
    """Return a component whose plain `def` runs in threads of its own.

    The SDK shares 40 threads between all functions, so 40 hanging calls of one function would block all others.
    """
    if not isinstance(component, Tool | FunctionResource | ResourceTemplate | Prompt) or _is_async(component.fn):
        return component
    changes: dict[str, Any] = {"fn": _in_threads(component.fn, Threads(threads))}
    if isinstance(component, Tool):
        changes["is_async"] = True
    return component.model_copy(update=changes)


def _is_async(fn: Any) -> bool:
    while isinstance(fn, functools.partial):
        fn = fn.func
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004


def _in_threads(fn: Any, threads: Threads) -> Any:
    @functools.wraps(fn)
    async def run(*args: Any, **kwargs: Any) -> Any:
        return await threads.run(functools.partial(fn, *args, **kwargs))

    return run
