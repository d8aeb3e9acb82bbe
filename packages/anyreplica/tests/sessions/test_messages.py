"""Messages that belong to no call, on the event stream of a session: a client that does not read costs little."""

from unittest.mock import AsyncMock

import pytest
from mcp.server.subscriptions import InMemorySubscriptionBus

from anyreplica.features.sessions.session import Session
from anyreplica.features.sessions.streams import SessionRecord, SessionStreams
from anyreplica.shared.notifier import Notifier

pytestmark = pytest.mark.anyio

SESSION = Session("key", "2025-11-25", "", float("inf"), "[{}, {}]")


class Records:
    """A store that only knows which stream is the newest."""

    stream = ""

    async def set_stream(self, _session: Session, _caller: str, name: str) -> None:
        self.stream = name

    async def read(self, _session: Session) -> SessionRecord:
        return SessionRecord(stream=self.stream)

    async def end_stream(self, _session: Session, _name: str) -> None:
        self.stream = ""


async def test_messages_to_a_client_that_does_not_read_are_dropped() -> None:
    """At most 64 KiB wait in a stream. Later messages arrive again when the client has read."""
    streams = SessionStreams(Records(), AsyncMock(), Notifier(), InMemorySubscriptionBus())  # type: ignore[arg-type]
    read = streams.messages(SESSION, "somebody")
    assert await anext(read) == ("", b"")
    half = b"x" * 32 * 1024
    for message in (half, half, b"dropped", b"x" * (64 * 1024 + 1)):
        await streams.send(SESSION, message)
    assert [await anext(read) for _ in range(2)] == [("", half)] * 2
    await streams.send(SESSION, b"later")
    assert await anext(read) == ("", b"later")
    await read.aclose()
    await streams.send(SESSION, b"nobody listens")
