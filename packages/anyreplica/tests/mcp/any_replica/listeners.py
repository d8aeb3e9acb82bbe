"""Helpers that subscribe to events."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import httpx

from conftest import Server
from tests.replicas import asking, streaming

ALL_LISTS = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
IN_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


@contextlib.contextmanager
def listening(server: Server, wanted: dict[str, Any]) -> Iterator[Iterator[dict[str, Any]]]:
    """Subscribe to events at a replica. Yields the messages after the acknowledgement."""
    with streaming(server.url, asking("stateless", "subscriptions/listen", {"notifications": wanted})) as stream:
        reply, events = stream
        assert reply.headers["content-type"] == "text/event-stream", reply.read()
        first = next(events)
        assert first["method"] == "notifications/subscriptions/acknowledged"
        assert first["params"]["notifications"] == wanted
        assert first["params"]["_meta"][IN_SUBSCRIPTION] == 1
        yield events


def hears(events: Iterator[dict[str, Any]]) -> list[str]:
    """Collect the events of a subscription in a thread. Return the list that grows."""
    heard: list[str] = []

    def note() -> None:
        try:
            heard.extend(event.get("method", "result") for event in events)
        except httpx.HTTPError:
            heard.append("lost")

    threading.Thread(target=note, daemon=True).start()
    return heard
