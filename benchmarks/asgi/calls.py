"""What the servers are asked: each scenario's request, its right reply, and how many are in flight."""

from dataclasses import dataclass
from typing import Any

import httpx
import orjson

from benchmarks.expectation import fault
from benchmarks.packs.offers.resources import DOCUMENT

TASKS = 200
"""In a call of the batch."""

HEADERS = {"content-type": "application/json", "accept": "application/json", "mcp-protocol-version": "2025-11-25"}


@dataclass(frozen=True)
class Calls:
    """One scenario."""

    name: str
    title: str
    method: str
    params: dict[str, Any]
    result: dict[str, Any]
    """What the reply's `result` must hold."""
    clients: int = 16
    """Connections with HTTP/1.1, or with HTTP/2 when each is a client of its own."""
    one_client: bool = False
    """Whether the requests in flight are one client's: with HTTP/2 over one connection."""
    tls: bool = False

    @property
    def body(self) -> bytes:
        """The request's body."""
        return orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": self.method, "params": self.params})

    def check(self, url: str, *, http2: bool) -> int:
        """Call once; returns the length of the reply's body.

        Raises:
            ValueError: the reply is wrong; `str()` says in which way.
        """
        try:
            with httpx.Client(http1=not http2, http2=http2, verify=False, timeout=30) as client:  # noqa: S501
                answer = client.post(url, content=self.body, headers=HEADERS)
        except httpx.HTTPError as error:
            raise ValueError(f"no reply: {error!r}") from error
        if wrong := fault(
            {"jsonrpc": "2.0", "id": 1, "result": self.result}, b"%d" % answer.status_code, answer.content
        ):
            raise ValueError(wrong)
        return len(answer.content)


def _text(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": False}


_ECHO = {"name": "echo", "arguments": {"message": "hello"}}
_TASKS = [f"task {number} of many" for number in range(TASKS)]
_DONE = {"structuredContent": {"result": [task.upper() for task in _TASKS]}, "isError": False}
_READ = {"contents": [{"uri": "text://document", "mimeType": "text/plain", "text": DOCUMENT}]}

CALLS = (
    Calls("call", "A simple tool call, 16 clients", "tools/call", _ECHO, _text("hello")),
    Calls("one", "16 calls at once of one client", "tools/call", _ECHO, _text("hello"), one_client=True),
    Calls(
        "batch", f"{TASKS} tasks in one call", "tools/call", {"name": "process", "arguments": {"tasks": _TASKS}}, _DONE
    ),
    Calls("read", "A resource of 10 kB", "resources/read", {"uri": "text://document"}, _READ),
    Calls("call-tls", "A simple tool call over TLS, 16 clients", "tools/call", _ECHO, _text("hello"), tls=True),
    Calls(
        "one-tls", "16 calls at once of one client, TLS", "tools/call", _ECHO, _text("hello"), one_client=True, tls=True
    ),
)
