"""JSON-RPC calls as a test writes them."""

from typing import Any

import httpx

HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}
BOTH = "application/json, text/event-stream"
VERSION = "2026-07-28"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
}

FULL: dict[str, Any] = {"fastmcp": {}}
"""Members of `_meta` that make a call one for the FastMCP path, and change nothing else."""


def post(url: str, **arguments: Any) -> httpx.Response:
    """POST on a connection of its own, without the 25 ms that loading TLS certificates takes."""
    with httpx.Client(verify=False, timeout=30) as client:
        return client.post(f"{url}/mcp", **arguments)


def get(url: str, **arguments: Any) -> httpx.Response:
    """GET on a connection of its own."""
    with httpx.Client(verify=False, timeout=30) as client:
        return client.get(url, **arguments)


def request(method: str, params: dict[str, Any] | None = None, number: Any = 1) -> dict[str, Any]:
    """A JSON-RPC request."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}}


def legacy(url: str, method: str, params: dict[str, Any] | None = None, **headers: str) -> httpx.Response:
    """One bare handshake-protocol request, on a connection of its own."""
    return post(url, json=request(method, params), headers={**HEADERS, **headers})


def modern(url: str, method: str, params: dict[str, Any] | None = None, **headers: str) -> httpx.Response:
    """One 2026-07-28 request, on a connection of its own."""
    params = {**(params or {}), "_meta": ENVELOPE}
    routing = {"MCP-Protocol-Version": VERSION, "Mcp-Method": method}
    if name := params.get("name") or params.get("uri"):
        routing["Mcp-Name"] = name
    sent = {**HEADERS, **routing, **headers}
    return post(url, json=request(method, params), headers=sent)


def call(url: str, tool: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
    """Call a tool (handshake protocol); returns the result."""
    reply = legacy(url, "tools/call", {"name": tool, "arguments": arguments or {}})
    assert reply.status_code == 200, reply.text
    result: dict[str, Any] = reply.json()["result"]
    return result


def text(result: dict[str, Any]) -> str:
    """The text of a tool's result."""
    found: str = result["content"][0]["text"]
    return found


def open_session(url: str) -> tuple[str, str]:
    """Open a handshake-protocol session (`STATELESS_HTTP=false`); returns its id and the replica that has it."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    reply = legacy(url, "initialize", hello, Accept=BOTH)
    return reply.headers["Mcp-Session-Id"], reply.headers["X-Served-By"]


def in_session(url: str, session: str) -> httpx.Response:
    """A request of a session's, on a connection of its own."""
    headers = {"Accept": BOTH, "Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
    return legacy(url, "tools/list", None, **headers)
