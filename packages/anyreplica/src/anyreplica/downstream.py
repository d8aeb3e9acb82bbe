"""The HTTP client for tools that call an API.

Example:

    from fastmcp.tools import tool

    from anyreplica import downstream

    @tool
    async def rate(currency: str) -> float:
        reply = await downstream.get(f"https://api.example.com/rates/{currency}")
        return float(reply.json()["rate"])

The result is an `httpx2.Response` with a 2xx status. In all other cases the client raises a `ToolError` that names the
host. A tool may let this error pass to its caller. All calls of a process share their connections and the state of each
host.

If the operator configured token exchange for a host (`DOWNSTREAM_TOKENS_FILE`), calls of this host carry a token of the
tool's caller: the client exchanges the caller's token for one of the API. Proxies of MCP servers do the same. For
another HTTP client, such as that of `FastMCP.from_openapi`, there is `CallerAuth`.
"""

from anyreplica.features.downstream.errors import (
    BadStatus,
    CircuitOpen,
    DownstreamError,
    Limited,
    NoToken,
    TimedOut,
    Unreachable,
    Unusable,
)
from anyreplica.features.downstream.exchange.upstreams import CallerAuth
from anyreplica.features.downstream.http_client import Downstream, client, close, closing, configure, get, post, request

__all__ = [
    "BadStatus",
    "CallerAuth",
    "CircuitOpen",
    "Downstream",
    "DownstreamError",
    "Limited",
    "NoToken",
    "TimedOut",
    "Unreachable",
    "Unusable",
    "client",
    "close",
    "closing",
    "configure",
    "get",
    "post",
    "request",
]
