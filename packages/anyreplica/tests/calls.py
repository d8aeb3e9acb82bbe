"""Helpers that send JSON-RPC calls to a server."""

from typing import Any

import httpx

HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}
BOTH = "application/json, text/event-stream"
VERSION = "2026-07-28"
ENVELOPE = {"io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": {}}

FULL: dict[str, Any] = {"fastmcp": {}}
"""Members of `_meta` that send a call to the FastMCP path and change nothing else."""


def post(url: str, **arguments: Any) -> httpx.Response:
    """Send a POST request on a new connection, without the TLS certificates, which would take 25 ms."""
    with httpx.Client(verify=False, timeout=60) as client:
        return client.post(f"{url}/mcp", **arguments)


def get(url: str, **arguments: Any) -> httpx.Response:
    """Send a GET request on a new connection."""
    with httpx.Client(verify=False, timeout=60) as client:
        return client.get(url, **arguments)


def request(method: str, params: dict[str, Any] | None = None, number: Any = 1) -> dict[str, Any]:
    """Return a JSON-RPC request."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}}


def legacy(url: str, method: str, params: dict[str, Any] | None = None, **headers: str) -> httpx.Response:
    """Send one handshake-protocol request on a new connection, without a handshake."""
    return post(url, json=request(method, params), headers={**HEADERS, **headers})


def modern(url: str, method: str, params: dict[str, Any] | None = None, **headers: str) -> httpx.Response:
    """Send one request of the stateless protocol (2026-07-28) on a new connection."""
    params = {**(params or {}), "_meta": ENVELOPE}
    routing = {"MCP-Protocol-Version": VERSION, "Mcp-Method": method}
    if name := params.get("name") or params.get("uri"):
        routing["Mcp-Name"] = name
    sent = {**HEADERS, **routing, **headers}
    return post(url, json=request(method, params), headers=sent)


def call(url: str, tool: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
    """Call a tool with the handshake protocol and return its result."""
    reply = legacy(url, "tools/call", {"name": tool, "arguments": arguments or {}})
    assert reply.status_code == 200, reply.text
    result: dict[str, Any] = reply.json()["result"]
    return result


def text(result: dict[str, Any]) -> str:
    """Return the text of a tool's result."""
    found: str = result["content"][0]["text"]
    return found


def open_session(url: str) -> tuple[str, str]:
    """Open a session of the handshake protocol. Return its id and the name of the replica that holds it."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    reply = legacy(url, "initialize", hello, Accept=BOTH)
    return reply.headers["Mcp-Session-Id"], reply.headers["X-Served-By"]
