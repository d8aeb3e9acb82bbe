"""What a turn of the loop must not lose; the parts of one are seen in the process itself only."""

import asyncio
import socket

import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from server.config import Settings
from server.http1.limits import KEY, of
from server.http1.protocol import HttpProtocol

REQUEST = b"GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Say which path was asked for."""
    await PlainTextResponse(scope["path"])(scope, receive, send)


class Connections:
    """Both ends of a number of connections; the servers' protocols are given data by hand."""

    def __init__(self) -> None:
        self.config = uvicorn.Config(app, log_config=None)
        self.config.load()
        self.state = ServerState()
        self.clients: list[socket.socket] = []
        self.protocols: list[HttpProtocol] = []

    async def open(self) -> HttpProtocol:
        """Connect one more."""
        ours, theirs = socket.socketpair()
        theirs.settimeout(10)
        self.clients.append(theirs)
        loop = asyncio.get_running_loop()
        _, protocol = await loop.connect_accepted_socket(
            lambda: HttpProtocol(config=self.config, server_state=self.state, app_state={KEY: of(Settings())}), ours
        )
        self.protocols.append(protocol)
        return protocol

    async def close(self) -> None:
        """Close what is open."""
        for protocol in self.protocols:
            protocol.transport.abort()
        for client in self.clients:
            client.close()
        await asyncio.sleep(0)  # for the transports, which close their sockets in the loop's next turn
        await asyncio.sleep(0)

    async def heard(self, number: int) -> bytes:
        """What has come to a client next."""
        return await asyncio.to_thread(self.clients[number].recv, 65536)


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
        connections = Connections()
        connections.config.loaded_app = note
        protocol = await connections.open()
        protocol.data_received(REQUEST % b"gone")
        protocol.connection_lost(None)
        for _ in range(3):  # before Python 3.12 tasks do not begin at once
            await asyncio.sleep(0)
        assert seen == ["/gone"]
        await connections.close()

    asyncio.run(run())
