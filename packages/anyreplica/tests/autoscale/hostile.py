"""A replica that answers GET /metrics with anything, on an address of 127.0.0.0/8."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

Answer = Callable[[asyncio.StreamWriter], Coroutine[Any, Any, None]]
"""Writes the whole answer, with its head."""


def sends(head: str, body: bytes = b"") -> Answer:
    """Return an answer that is sent at once."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)
        await writer.drain()

    return answer


def never_ends(head: str, part: bytes, seconds: float = 0, *, end: bytes = b"\r\n\r\n") -> Answer:
    """Return an answer that goes on, with a pause after each part. `end` ends the head."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(head.replace("\n", "\r\n").encode() + end)
        while True:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(seconds)

    return answer


@contextlib.asynccontextmanager
async def listening(address: str, port: int, answer: Answer) -> AsyncIterator[list[bytes]]:
    """Answer each connection to an address. Yields the requests that arrived."""
    requests: list[bytes] = []
    open_connections: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_connections.append(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            requests.append(await reader.readuntil(b"\r\n\r\n"))
            await answer(writer)
        writer.close()

    server = await asyncio.start_server(serve, address, port)
    try:
        yield requests
    finally:
        server.close()
        for writer in open_connections:
            writer.transport.abort()


def free_port_of(*addresses: str) -> int:
    """Return a port that is free on all these addresses."""
    while True:
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            port = _bound(stack, addresses[0], 0)
            for address in addresses[1:]:
                _bound(stack, address, port)
            return port


def _bound(stack: contextlib.ExitStack, address: str, port: int) -> int:
    taken = stack.enter_context(socket.socket())
    taken.bind((address, port))
    found: int = taken.getsockname()[1]
    return found
