"""The warm-up: requests that a replica sends to itself before it is ready, to import late modules and fill caches."""

import httpx2
from fastmcp import FastMCP
from mcp_types import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION
from starlette.types import ASGIApp

from anyreplica.mcp._sdk_server import SdkServer

_ENVELOPE = {PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION, CLIENT_CAPABILITIES_META_KEY: {}}


async def warm_up(app: ASGIApp, path: str, mcp: FastMCP) -> None:
    """Request the list of tools from `app`, at the path of its endpoint, in both protocol families.

    A server of the MCP SDK may have no list of tools, or one that needs a caller. It gets other requests.

    Without the warm-up, the first call of a replica takes 300 ms longer.

    Raises:
        RuntimeError: the app does not answer with HTTP status 200.
    """
    methods = ("ping", "server/discover") if isinstance(mcp, SdkServer) else ("tools/list", "tools/list")
    routing = {"mcp-protocol-version": LATEST_MODERN_VERSION, "mcp-method": methods[1]}
    accept = {"accept": "application/json, text/event-stream"}
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=accept) as client:
        await _call(client, path, methods[0], {"mcp-protocol-version": LATEST_HANDSHAKE_VERSION}, {})
        await _call(client, path, methods[1], routing, {"_meta": _ENVELOPE})


async def _call(
    client: httpx2.AsyncClient, path: str, method: str, headers: dict[str, str], params: dict[str, object]
) -> None:
    message = {"jsonrpc": "2.0", "id": 0, "method": method, "params": params}
    response = await client.post(path, json=message, headers=headers)
    if response.status_code != 200:
        raise RuntimeError(f"Warm-up: the server answered its own {method} with HTTP status {response.status_code}")
