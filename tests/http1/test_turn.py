"""What a turn of the loop must not lose; the parts of one are seen in the process itself only."""

import asyncio

from starlette.types import Receive, Scope, Send

from tests.http1.connections import Connections, app

REQUEST = b"GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n"


def test_what_came_before_a_stop_is_answered() -> None:
    """Though it hasn't been parsed when the connection is told to shut down."""

    async def run() -> None:
        connections = Connections()
        protocol = await connections.open()
        protocol.data_received(REQUEST % b"late")
        protocol.shutdown()
        answer = await connections.heard(0)
        while not answer.endswith(b"/late"):
            answer += await connections.heard(0)
        assert await connections.heard(0) == b""
        await connections.close()

    asyncio.run(run())


def test_what_a_connection_sent_before_it_was_lost_is_taken() -> None:
    """A call that has come must not be forgotten because its caller went away at once."""
    seen = []

    async def note(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["path"])
        await app(scope, receive, send)

    async def run() -> None:
        connections = Connections(note)
        protocol = await connections.open()
        protocol.data_received(REQUEST % b"gone")
        protocol.connection_lost(None)
        for _ in range(3):  # before Python 3.12 tasks do not begin at once
            await asyncio.sleep(0)
        assert seen == ["/gone"]
        await connections.close()

    asyncio.run(run())
