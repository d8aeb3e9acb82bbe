"""The check of `Mcp-Param-*` headers of tool calls to a server of the SDK: its own code says which headers a tool has.

The SDK's app does the same before each call. The lists of a low-level `Server` are code of its author, so they may
differ for each caller, and nothing reads them earlier.
"""

import logging
from collections.abc import Mapping
from typing import Any

from fastmcp.exceptions import FastMCPError
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.runner import aclose_shielded
from mcp.shared.inbound import MCP_PARAM_HEADER_PREFIX, validate_mcp_param_headers
from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY
from starlette.types import Scope

from anyreplica.components.call_limits import bounded
from anyreplica.mcp.compat import sdk
from anyreplica.mcp.compat.dispatch import SdkDispatch
from anyreplica.mcp.compat.sdk_server import SdkServer
from anyreplica.mcp.message import Request

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
