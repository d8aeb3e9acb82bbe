"""The connections of the attacker, and the report of what they got."""

import asyncio
import contextlib
import re
import socket
import struct
from collections import Counter
from dataclasses import dataclass, field

_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")
_INTERNAL = b'"code":-32603'
_RESET = struct.pack("ii", 1, 0)
_BIND_ADDRESS_NO_PORT = 24
"""IP_BIND_ADDRESS_NO_PORT of ip(7), without a name in Python: the kernel chooses the port of a socket that connects."""
_SEARCHED = 10_000
"""Number of bytes in which `find` looks."""
_ADDRESS = "127.0.0.2"
"""Not the address of the well-behaved client: the kernel drops packets when all ports of an address are used up."""


@dataclass
class Report:
    """The counts of the attacker's rounds and of the replies that it received."""

    rounds: Counter[str] = field(default_factory=Counter)
    """Number of rounds for each way."""
    statuses: Counter[str] = field(default_factory=Counter)
    internal: int = 0
    """Number of JSON-RPC errors -32603."""
    faults: list[str] = field(default_factory=list)
    """Replies that show a fault of the server, each with its round and the data that was sent."""
    open: int = 0
    """Maximum number of connections open at the same time."""
    share: float = 0
    """Share of a processor core that the attacker used."""


class Connection:
    """A connection of one round."""

    def __init__(self, port: int, name: str, report: Report, *, shows: bool) -> None:
        self.name = name
        self._report = report
        self._port = port
        self._shows = shows
        self._loop = asyncio.get_running_loop()
        self._tail = b""
        self._sent = b""
        self._received = b""
        """The last bytes that `find` has received on this connection."""
        self._socket = socket.socket()

    async def open(self, room: int = 0) -> None:
        """Connect, or connect again, with a buffer of `room` bytes for replies (0: the default)."""
        self._socket.close()
        self._received = b""
        self._socket = socket.socket()
        self._socket.setblocking(False)
        if room:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.IPPROTO_IP, _BIND_ADDRESS_NO_PORT, 1)
        self._socket.bind((_ADDRESS, 0))
        await self._loop.sock_connect(self._socket, ("127.0.0.1", self._port))

    async def send(self, data: bytes) -> None:
        """Send bytes as quickly as the replica accepts them."""
        self._sent = data[:200]
        await self._loop.sock_sendall(self._socket, data)

    async def trickle(self, data: bytes, pause: float) -> None:
        """Send bytes one by one, with a pause in seconds after each."""
        self._sent = data[:200]
        for place in range(len(data)):
            await self._loop.sock_sendall(self._socket, data[place : place + 1])
            await asyncio.sleep(pause)

    async def read(self, seconds: float, size: int = 262_144, pause: float = 0) -> None:
        """Read parts of at most `size` bytes, with pauses, until none comes for `seconds` or the connection ends."""
        with contextlib.suppress(TimeoutError):
            while data := await asyncio.wait_for(self._loop.sock_recv(self._socket, size), seconds):
                self._look(data)
                await asyncio.sleep(pause)

    async def read_some(self, seconds: float) -> None:
        """Read the first bytes of a reply if they come within `seconds`."""
        with contextlib.suppress(TimeoutError):
            self._look(await asyncio.wait_for(self._loop.sock_recv(self._socket, 262_144), seconds))

    async def find(self, pattern: bytes, seconds: float) -> str | None:
        """Read until a part of a reply matches a pattern, and return its first group. None: not within `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not (found := re.search(pattern, self._received)):
                    data = await self._loop.sock_recv(self._socket, 262_144)
                    if not data:
                        return None
                    self._look(data)
                    self._received = (self._received + data)[-_SEARCHED:]
                return found[1].decode()
        return None

    def end_sending(self) -> None:
        """Close the sending side of the connection."""
        self._socket.shutdown(socket.SHUT_WR)

    def end(self, *, reset: bool) -> None:
        """Close the connection, with a TCP reset if `reset` is true."""
        if reset and self._socket.fileno() >= 0:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._socket.close()

    def _look(self, data: bytes) -> None:
        """Count the replies that begin in the received bytes."""
        if self._shows:
            print(data[:500])
        seen = self._tail + data
        end = 0
        for found in _STATUS.finditer(seen):
            end = found.end()
            self._report.statuses[found[1].decode()] += 1
            if found[1] >= b"500" and found[1] != b"503":
                self._blame(seen[found.start() :])
        if (place := data.find(_INTERNAL)) >= 0:
            self._report.internal += data.count(_INTERNAL)
            self._blame(data[max(0, place - 100) :])
        self._tail = seen[max(end, len(seen) - len("HTTP/1.1 200")) :]

    def _blame(self, reply: bytes) -> None:
        if len(self._report.faults) < 20:
            self._report.faults.append(f"{self.name}: reply {reply[:400]!r} to {self._sent!r}")
