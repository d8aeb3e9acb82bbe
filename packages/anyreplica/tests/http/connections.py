"""Connections inside the test's own process. The test passes data to the server's protocols by hand."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.server import ServerState

from anyreplica import Settings
from anyreplica.http.uvicorn.connections import KEY
from anyreplica.http.uvicorn.connections import Connections as Open
from anyreplica.http.uvicorn.protocol import HttpProtocol


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the path of the request."""
    await PlainTextResponse(scope["path"])(scope, receive, send)


CONFIG = uvicorn.Config(app, log_config=None)
CONFIG.load()


class Wire:
    """A transport and an event loop that do nothing, except that they remember what is written."""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        """Remember these bytes."""
        self.written += data

    def time(self) -> float:
        """Return the time of the loop."""
        return 0.0

    def is_closing(self) -> bool:
        """Return that the transport is open."""
        return False

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *_, **__: None


class Connections:
    """Both ends of several connections. The test can pass data to the server's protocols by hand."""

    def __init__(self, served: ASGIApp = app) -> None:
        self.config = uvicorn.Config(served, log_config=None)
        self.config.load()
        self.state = ServerState()
        self.clients: list[socket.socket] = []
        self.protocols: list[HttpProtocol] = []

    async def open(self) -> HttpProtocol:
        """Open a connection and return the server's protocol."""
        ours, theirs = socket.socketpair()
        theirs.settimeout(10)
        self.clients.append(theirs)
        loop = asyncio.get_running_loop()
        app_state = {KEY: Open(Settings())}
        _, protocol = await loop.connect_accepted_socket(
            lambda: HttpProtocol(config=self.config, server_state=self.state, app_state=app_state), ours
        )
        self.protocols.append(protocol)
        return protocol

    async def close(self) -> None:
        """Close both ends of all connections."""
        for protocol in self.protocols:
            protocol.transport.abort()
        for client in self.clients:
            client.close()
        await asyncio.sleep(0)  # Transports close their sockets in the loop's next iteration.
        await asyncio.sleep(0)

    async def heard(self, number: int, until: bytes = b"") -> bytes:
        """Return the next data that a client receives, up to the bytes `until` or the end of the connection."""
        answer = part = await asyncio.to_thread(self.clients[number].recv, 65536)
        while part and until not in answer:
            part = await asyncio.to_thread(self.clients[number].recv, 65536)
            answer += part
        return answer
