"""Everything that a client can see of the reply to a request."""

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from starlette.types import Message, Scope

from anyreplica.http.request_record import record_of
from anyreplica.mcp.endpoint import McpEndpoint
from tests.damage.wire import Request


@dataclass(frozen=True)
class Answer:
    """Everything that a client can see of a reply, with the number of runs that it took."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    messages: tuple[str, ...]
    """One JSON document, or the events of a stream. Each has sorted keys and exact numbers."""
    failed: bool
    """Whether the access log marks the request as failed."""
    runs: Mapping[str, int]
    """Number of runs of each component and of each middleware."""

    @property
    def message(self) -> dict[str, Any]:
        """The last message, which is the JSON-RPC response."""
        found: dict[str, Any] = json.loads(self.messages[-1])
        return found


async def drive(exchange: McpEndpoint, sent: Request) -> tuple[list[Message], bool]:
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": sent.method.decode("latin-1"),
        "scheme": "http",
        "path": "/mcp",
        "raw_path": b"/mcp",
        "root_path": "",
        "query_string": b"",
        "headers": [(name.lower(), value) for name, value in sent.headers],
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 8000),
        "state": {},
    }
    pending: list[Message] = [{"type": "http.request", "body": sent.body, "more_body": False}]
    messages: list[Message] = []

    async def receive() -> Message:
        if pending:
            return pending.pop()
        await asyncio.Event().wait()
        raise AssertionError("the server read more than the request")

    async def send(message: Message) -> None:
        messages.append(message)

    await exchange(scope, receive, send)
    return messages, record_of(scope).failed is not None


def events(body: bytes) -> list[bytes]:
    """Return the data of an event stream's messages, without the comments, which may arrive at any time."""
    events = [event for event in body.split(b"\r\n\r\n") if event and not event.startswith(b":")]
    head = b"event: message\r\ndata: "
    assert all(event.startswith(head) and event.count(b"\n") == 1 for event in events)
    return [event.removeprefix(head) for event in events]


# The uptime and the sealed (encrypted) request state differ in every reply.
_UPTIME = re.compile(rb'(uptime_seconds\\?":)[\d.]+')
_SEALED = re.compile(rb'("requestState":)"[^"]{20,}"')


def canonical(document: bytes) -> str:
    """Return JSON with sorted keys and exact numbers: 1 differs from 1.0, true and "1", and 0.0 from -0.0."""
    document = _SEALED.sub(rb'\1"sealed"', _UPTIME.sub(rb"\g<1>0", document))
    return json.dumps(json.loads(document, parse_constant=_refuse, object_pairs_hook=_once), sort_keys=True)


def _refuse(name: str) -> NoReturn:
    raise AssertionError(f"{name} is not valid JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object that has each key once. Return its pairs if a key appears twice."""
    found = dict(pairs)
    return found if len(found) == len(pairs) else {"keys that come twice": [list(pair) for pair in pairs]}
