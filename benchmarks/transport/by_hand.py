"""Calls as bytes, without a client library: what is left of their time is the transport's and the server's."""

import asyncio
from collections.abc import Callable
from typing import Any

import orjson

from benchmarks.expectation import difference
from benchmarks.load import LoadError
from benchmarks.reply import parse
from benchmarks.scenarios import MESSAGE
from benchmarks.wire import Family, encode

_CHUNK = 1 << 16
_PARAMS = {"name": "echo", "arguments": {"message": MESSAGE}}
_EXPECTED = {"id": 1, "result": {"structuredContent": {"result": MESSAGE}, "isError": False}}
_INITIALIZE: dict[str, Any] = {
    "protocolVersion": Family.HANDSHAKE.value,
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "1"},
}


class ByHand:
    """One connection, or the two pipes of a process, with one call in flight at most.

    Args:
        request: the bytes of the call.
        body_of: the body of the reply that some bytes are; None while some of it is missing.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        request: bytes,
        body_of: Callable[[bytes], bytes | None],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._request = request
        self._body_of = body_of
        self._right = b""

    async def call(self) -> None:
        """Call the echo; a reply is right when it has the bytes of one that was read and found right.

        Raises:
            LoadError: a wrong reply, or the server closed the connection.
            UnreadableReply: as `benchmarks.reply.parse`.
        """
        body = await self._exchange(self._request)
        if body != self._right:
            if wrong := difference(_EXPECTED, orjson.loads(body)):
                raise LoadError(f"wrong reply: {wrong}")
            self._right = body

    async def shake_hands(self) -> None:
        """Open a session over pipes."""
        await self._exchange(_line(id=0, method="initialize", params=_INITIALIZE))
        self._writer.write(_line(method="notifications/initialized"))

    async def _exchange(self, request: bytes) -> bytes:
        self._writer.write(request)
        received = b""
        while (body := self._body_of(received)) is None:
            if not (more := await self._reader.read(_CHUNK)):
                raise LoadError("the server closed the connection")
            received += more
        return body


def over_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, family: Family) -> ByHand:
    """Calls over a keep-alive connection, of which this project's server wants no handshake."""
    return ByHand(reader, writer, encode("tools/call", _PARAMS, family=family), _body_of_http)


async def over_pipes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, family: Family) -> ByHand:
    """Calls over a process's pipes, after the handshake where the family has one."""
    _, _, body = encode("tools/call", _PARAMS, family=family).partition(b"\r\n\r\n")
    hand = ByHand(reader, writer, body + b"\n", _body_of_line)
    if family is Family.HANDSHAKE:
        await hand.shake_hands()
    return hand


def _line(**members: Any) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", **members}) + b"\n"


def _body_of_http(received: bytes) -> bytes | None:
    reply = parse(received)
    if reply is None:
        return None
    if reply.status != b"200":
        raise LoadError(f"wrong reply: HTTP {reply.status.decode('latin-1')}")
    return reply.body


def _body_of_line(received: bytes) -> bytes | None:
    return received if received.endswith(b"\n") else None
