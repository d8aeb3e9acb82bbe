"""One echo call, and whether it truly succeeded."""

import time
from dataclasses import dataclass
from typing import Any

import httpx

HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}


@dataclass(frozen=True)
class Outcome:
    """What came of one call."""

    seconds: float
    """From just before the request was sent until its reply was read."""
    replica: str
    """What `X-Served-By` said; empty when no reply came."""
    error: str
    """The kind of failure, empty for a success."""


async def echo(client: httpx.AsyncClient, url: str, number: int) -> Outcome:
    """Call the echo tool once, with a text that no other call has.

    A success is HTTP 200 and no JSON-RPC error and not `isError` and the text that was sent.
    """
    text = f"load {number}"
    params = {"name": "echo", "arguments": {"message": text}}
    message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    started = time.perf_counter()
    try:
        response = await client.post(url, json=message, headers=HEADERS)
    except httpx.HTTPError as error:
        return Outcome(time.perf_counter() - started, "", type(error).__name__)
    seconds = time.perf_counter() - started
    return Outcome(seconds, response.headers.get("X-Served-By", ""), _failure(response, number, text))


def _failure(response: httpx.Response, number: int, text: str) -> str:
    if response.status_code == 401:
        return "HTTP 401 (give --token or set MCP_TOKEN)"
    if response.status_code != 200:
        return f"HTTP {response.status_code}"
    try:
        reply: Any = response.json()
        if "error" in reply:
            return f"JSON-RPC error {reply['error']['code']}"
        if reply["result"].get("isError"):
            return "tool error"
        same = reply["id"] == number and reply["result"]["content"][0]["text"] == text
    except (ValueError, LookupError, TypeError, AttributeError):
        return "not a JSON-RPC reply"
    return "" if same else "wrong echo"
