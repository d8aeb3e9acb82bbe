"""Calls whose client loses the connection and resumes them."""

import contextlib
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import httpx

from tests.calls import BOTH, legacy, request, text
from tests.sessions.client import ADA, AskedClient

Event = tuple[str, str]
"""The id and the data of an event."""


def events_of(reply: httpx.Response) -> Iterator[Event]:
    """Yield the events of a reply as they arrive."""
    identity = ""
    for line in reply.iter_lines():
        if line.startswith("id: "):
            identity = line.removeprefix("id: ")
        elif line.startswith("data:"):
            yield identity, line.removeprefix("data:").strip()


def sent(client: AskedClient, url: str, tool: str, **arguments: Any) -> AbstractContextManager[Iterator[Event]]:
    """Call a tool, and yield the events of the reply. The connection closes with the block."""
    return requested(client, url, "tools/call", {"name": tool, "arguments": arguments})


@contextlib.contextmanager
def requested(client: AskedClient, url: str, method: str, params: dict[str, Any]) -> Iterator[Iterator[Event]]:
    """Send a request with the id 7, and yield the events of the reply. The connection closes with the block."""
    headers = {**client.headed(), "Accept": BOTH}
    body = request(method, params, number=7)
    with (
        httpx.Client(verify=False, timeout=60) as http,
        http.stream("POST", f"{url}/mcp", json=body, headers=headers) as reply,
    ):
        yield events_of(reply)


@contextlib.contextmanager
def stream(client: AskedClient, url: str, **headers: str) -> Iterator[httpx.Response]:
    """Open an event stream: that of a session, or with `Last-Event-ID` that of a call."""
    sent = {**client.headed(), "Accept": BOTH, **headers}
    with httpx.Client(verify=False, timeout=60) as http, http.stream("GET", f"{url}/mcp", headers=sent) as reply:
        yield reply


@contextlib.contextmanager
def resumed(client: AskedClient, url: str, event: str) -> Iterator[tuple[httpx.Response, Iterator[Event]]]:
    """Resume a call after an event. Yields the reply and its events, without the empty one at the start."""
    with stream(client, url, **{"Last-Event-ID": event}) as reply:
        events = events_of(reply)
        if reply.status_code == 200:
            assert next(events) == (event, "")
        yield reply, events


def call(client: AskedClient, url: str, tool: str, **arguments: Any) -> str:
    """Call a tool in the session and return its text."""
    return text(legacy(url, "tools/call", {"name": tool, "arguments": arguments}, **client.headed()).json()["result"])


def greeted(client: AskedClient, url: str, question: Event, events: Iterator[Event]) -> None:
    """Answer the question of the tool `greet`, and check that the next event is its result."""
    assert client.answer(url, json.loads(question[1])["id"], ADA).status_code == 202
    assert "Hello, Ada!" in next(events)[1]
