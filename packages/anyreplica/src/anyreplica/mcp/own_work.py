"""What a server does for this package and not for a caller: it lists its components for plans, and it warms up.

Middleware of the server's author must not see this work: it would count or log requests that no client has sent.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import httpx2
from fastmcp import FastMCP
from fastmcp.server.middleware import Middleware
from fastmcp.server.middleware.dereference import DereferenceRefsMiddleware
from mcp_types import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION
from starlette.types import ASGIApp

from anyreplica.auth.visibility import InnerVisibility, Visibility
from anyreplica.components.call_limits import CallLimits
from anyreplica.mcp.compat.overrides import needs_no_author
from anyreplica.mcp.compat.sdk_server import SdkServer

_ENVELOPE = {PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION, CLIENT_CAPABILITIES_META_KEY: {}}


class OwnMiddleware(Middleware):
    """The class of the middleware that features add. It treats all requests alike."""


OWN_MIDDLEWARE = (OwnMiddleware, CallLimits, Visibility, DereferenceRefsMiddleware)
"""The classes of middleware that are not the author's. They treat all requests alike."""


_OWN_WORK: ContextVar[bool] = ContextVar("own_work", default=False)


class _MiddlewareList(list[Middleware]):
    """The middleware of a FastMCP server. FastMCP calls `reversed` on it to run a request through the middleware."""

    def __reversed__(self) -> Iterator[Middleware]:
        """Return the middleware of a request, innermost first."""
        if _OWN_WORK.get():
            ours = [each for each in self if isinstance(each, OWN_MIDDLEWARE)]
            return reversed([each for each in ours if not isinstance(each, InnerVisibility)])
        return super().__reversed__()


def can_hide_own_work(server: FastMCP) -> None:
    """Prepare a server so that `own_work` has its effect. This may be repeated."""
    if type(server.middleware) is not _MiddlewareList:
        server.middleware = _MiddlewareList(server.middleware)


@contextmanager
def own_work() -> Iterator[None]:
    """Inside the `with` block, requests of this task and its children do not reach the middleware of authors."""
    token = _OWN_WORK.set(True)
    try:
        yield
    finally:
        _OWN_WORK.reset(token)


async def warm_up(app: ASGIApp, path: str, mcp: FastMCP) -> None:
    """Request the list of tools from `app`, at the path of its endpoint, in both protocol families.

    A server of the MCP SDK may have no list of tools, or one that needs a caller. It gets other requests, and only
    those that run no code of its author.

    Without the warm-up, the first call of a replica takes 300 ms longer.

    Raises:
        RuntimeError: the app does not answer a request for its tools with HTTP status 200.
    """
    is_sdk = isinstance(mcp, SdkServer)
    methods = ("ping", "server/discover") if is_sdk else ("tools/list", "tools/list")
    routing = {"mcp-protocol-version": LATEST_MODERN_VERSION, "mcp-method": methods[1]}
    if not is_sdk or needs_no_author(mcp, methods[0]):
        await _call(app, path, methods[0], {"mcp-protocol-version": LATEST_HANDSHAKE_VERSION}, {})
    if not is_sdk or needs_no_author(mcp, methods[1]):
        await _call(app, path, methods[1], routing, {"_meta": _ENVELOPE})


async def _call(app: ASGIApp, path: str, method: str, headers: dict[str, str], params: dict[str, object]) -> None:
    message = {"jsonrpc": "2.0", "id": 0, "method": method, "params": params}
    headers = {"accept": "application/json, text/event-stream", **headers}
    request = httpx2.Request("POST", f"http://127.0.0.1{path}", json=message, headers=headers)
    # Without a client: its class may be one that the author has replaced.
    response = await httpx2.ASGITransport(app).handle_async_request(request)
    if method == "tools/list" and response.status_code != 200:
        raise RuntimeError(f"Warm-up: the server answered its own {method} with HTTP status {response.status_code}")
