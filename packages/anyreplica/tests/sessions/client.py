"""A handshake-protocol client that answers requests of the server. The test names the URL of each HTTP request."""

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.calls import HEADERS, post, request
from tests.replicas import streaming

VERSION = "2025-11-25"
EVERYTHING: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}
"""Capabilities of a client that can answer every request."""

ADA = {"action": "accept", "content": {"value": "Ada", "name": "Ada"}}
"""The answer of a user who gives a name."""


@dataclass
class AskedClient:
    """A client with a session. Each request goes to the URL that the test names."""

    session: str
    headers: dict[str, str] = field(default_factory=dict)

    def headed(self) -> dict[str, str]:
        """Return the headers of a request in this session."""
        return {**HEADERS, "Mcp-Session-Id": self.session, "MCP-Protocol-Version": VERSION, **self.headers}

    @contextlib.contextmanager
    def calling(
        self, url: str, tool: str, arguments: dict[str, Any] | None = None
    ) -> Iterator[Iterator[dict[str, Any]]]:
        """Call a tool. Yields the messages of the reply, which is an event stream or a single response."""
        asked = request("tools/call", {"name": tool, "arguments": arguments or {}})
        with streaming(url, {"json": asked, "headers": self.headed()}) as (reply, messages):
            is_stream = reply.headers["content-type"] == "text/event-stream"
            yield messages if is_stream else iter([json.loads(reply.read())])

    def answer(self, url: str, identity: Any, result: Any) -> httpx.Response:
        """Answer a request of the server with a result."""
        return self.reply(url, identity, {"result": result})

    def reply(self, url: str, identity: Any, members: dict[str, Any]) -> httpx.Response:
        """Send a JSON-RPC response with these members."""
        return post(url, json={"jsonrpc": "2.0", "id": identity, **members}, headers=self.headed())

    def cancel(self, url: str, number: int) -> httpx.Response:
        """Cancel the request with this id."""
        body = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
        return post(url, json=body, headers=self.headed())

    def ended(self, url: str) -> httpx.Response:
        """End the session."""
        with httpx.Client(verify=False, timeout=60) as client:
            return client.delete(f"{url}/mcp", headers=self.headed())

    def call(self, urls: list[str], tool: str, answer: Callable[[dict[str, Any]], Any], **arguments: Any) -> Any:
        """Call a tool at the first URL, answer each request at the next URL, and return the response."""
        with self.calling(urls[0], tool, arguments) as messages:
            for number, message in enumerate(messages, 1):
                if "method" not in message:
                    return message
                if "id" in message:
                    reply = self.answer(urls[number % len(urls)], message["id"], answer(message))
                    assert reply.status_code == 202, reply.text
        return None


def start(url: str, capabilities: dict[str, Any] = EVERYTHING, **headers: str) -> AskedClient:
    """Start a session with these capabilities."""
    hello = {"protocolVersion": VERSION, "capabilities": capabilities, "clientInfo": {"name": "t", "version": "1"}}
    reply = post(url, json=request("initialize", hello), headers={**HEADERS, **headers})
    assert reply.status_code == 200, reply.text
    return AskedClient(reply.headers["Mcp-Session-Id"], headers)


def said(response: dict[str, Any]) -> str:
    """Return the text of a tool's result in a JSON-RPC response."""
    found: str = response["result"]["content"][0]["text"]
    return found
