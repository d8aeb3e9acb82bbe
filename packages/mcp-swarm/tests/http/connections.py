"""Connections whose servers' ends are given data by hand, in the test's own process."""

import asyncio
import socket

import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.server import ServerState

from mcp_swarm.http.uvicorn.connections import KEY
from mcp_swarm.http.uvicorn.connections import Connections as Open
from mcp_swarm.http.uvicorn.protocol import HttpProtocol
from mcp_swarm.settings import Settings


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Say which path was asked for."""
    await PlainTextResponse(scope["path"])(scope, receive, send)


class Connections:
    """Both ends of a number of connections; the servers' protocols are given data by hand."""

    def __init__(self, served: ASGIApp = app) -> None:
        self.config = uvicorn.Config(served, log_config=None)
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
        app_state = {KEY: Open(Settings())}
        _, protocol = await loop.connect_accepted_socket(
            lambda: HttpProtocol(config=self.config, server_state=self.state, app_state=app_state), ours
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

    async def heard(self, number: int, until: bytes = b"") -> bytes:
        """What comes to a client next, up to these bytes or the connection's end."""
        answer = part = await asyncio.to_thread(self.clients[number].recv, 65536)
        while part and until not in answer:
            part = await asyncio.to_thread(self.clients[number].recv, 65536)
            answer += part
        return answer
