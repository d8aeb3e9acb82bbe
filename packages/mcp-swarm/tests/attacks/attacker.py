"""`python -m tests.attacks.attacker PORT SEED SECONDS`: attack a replica of this machine at random, then tell how.

At most 150 rounds run at once. Each opens a connection, behaves in one of the ways of `ways`, and ends the connection,
in an orderly way or with a reset. The name of a round decides everything that it sends:
`python -m tests.attacks.attacker PORT --round SEED/3/14/go` repeats a round and shows its replies.

The attacker has two limits. Otherwise the server would be right to refuse the good client, too. It has few requests in
flight and sends few large ones at once, and it uses about half of a processor core at most.
"""

import asyncio
import contextlib
import itertools
import json
import re
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.attacks.messages import large, ordinary
from tests.attacks.odd_requests import odd
from tests.attacks.wire import echo, http, listen, stateless

CONNECTIONS = 150
MOST_SHARE = 0.4
"""Share of a processor core."""

_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")
_INTERNAL = b'"code":-32603'
_RESET = struct.pack("ii", 1, 0)
_BIND_ADDRESS_NO_PORT = 24
"""IP_BIND_ADDRESS_NO_PORT of ip(7), for which Python has no name: the port is chosen when the socket connects."""
_ADDRESS = "127.0.0.2"
"""Not the good client's. Hundreds of thousands of connections use up the ports of an address, and then the kernel drops
the first packets of new connections from there."""
_LONGEST_ROUND = 15
_BODY_BYTES = 4 * 1024 * 1024


@dataclass
class Told:
    """What the attacker has done, and what came back."""

    rounds: Counter[str] = field(default_factory=Counter)
    """By way."""
    statuses: Counter[str] = field(default_factory=Counter)
    internal: int = 0
    """JSON-RPC errors -32603."""
    faults: list[str] = field(default_factory=list)
    """Replies that tell of a fault of the server, each with its round and what was sent."""
    open: int = 0
    """Most connections at once."""
    share: float = 0
    """Of a processor core."""


class Connection:
    """A connection that is used in one round."""

    def __init__(self, port: int, name: str, told: Told, *, shows: bool) -> None:
        self.name = name
        self._told = told
        self._port = port
        self._shows = shows
        self._loop = asyncio.get_running_loop()
        self._tail = b""
        self._sent = b""
        self._socket = socket.socket()

    async def open(self, room: int = 0) -> None:
        """Connect; anew, if it was done before.

        Args:
            room: bytes of replies that are taken while nobody reads; 0 for the usual.
        """
        self._socket.close()
        self._socket = socket.socket()
        self._socket.setblocking(False)
        if room:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.IPPROTO_IP, _BIND_ADDRESS_NO_PORT, 1)
        self._socket.bind((_ADDRESS, 0))
        await self._loop.sock_connect(self._socket, ("127.0.0.1", self._port))

    async def send(self, data: bytes) -> None:
        """Send bytes, as quickly as they are taken."""
        self._sent = data[:200]
        await self._loop.sock_sendall(self._socket, data)

    async def trickle(self, data: bytes, pause: float) -> None:
        """Send bytes one by one."""
        self._sent = data[:200]
        for place in range(len(data)):
            await self._loop.sock_sendall(self._socket, data[place : place + 1])
            await asyncio.sleep(pause)

    async def read(self, seconds: float, size: int = 262_144, pause: float = 0) -> None:
        """Read until nothing has come for a while, or the replica has ended the connection.

        Args:
            size: bytes at a time.
            pause: seconds between these.
        """
        with contextlib.suppress(TimeoutError):
            while data := await asyncio.wait_for(self._loop.sock_recv(self._socket, size), seconds):
                self._look(data)
                await asyncio.sleep(pause)

    async def read_some(self, seconds: float) -> None:
        """Read what comes first, if that is soon."""
        with contextlib.suppress(TimeoutError):
            self._look(await asyncio.wait_for(self._loop.sock_recv(self._socket, 262_144), seconds))

    def end_sending(self) -> None:
        """Send no more."""
        self._socket.shutdown(socket.SHUT_WR)

    def end(self, *, reset: bool) -> None:
        """Close the connection."""
        if reset and self._socket.fileno() >= 0:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._socket.close()

    def _look(self, data: bytes) -> None:
        """Count the replies that begin in what has come."""
        if self._shows:
            print(data[:500])
        seen = self._tail + data
        end = 0
        for found in _STATUS.finditer(seen):
            end = found.end()
            self._told.statuses[found[1].decode()] += 1
            if found[1] >= b"500" and found[1] != b"503":
                self._blame(seen[found.start() :])
        if (place := data.find(_INTERNAL)) >= 0:
            self._told.internal += data.count(_INTERNAL)
            self._blame(data[max(0, place - 100) :])
        self._tail = seen[max(end, len(seen) - len("HTTP/1.1 200")) :]

    def _blame(self, reply: bytes) -> None:
        if len(self._told.faults) < 20:
            self._told.faults.append(f"{self.name}: {reply[:400]!r} to {self._sent!r}")


async def behave(connection: Connection, dice: Random) -> None:
    """Ask as any client, a few times on one connection."""
    await connection.open()
    for _ in range(dice.randint(1, 12)):
        await connection.send(ordinary(dice))
        await connection.read(0.2)
        await asyncio.sleep(dice.choice([0, 0.01, 0.3]))


async def read_slowly(connection: Connection, dice: Random) -> None:
    """Take a few bytes a second of a reply."""
    await connection.open(2048)
    await connection.send(_large_reply(dice))
    await connection.read(4, dice.choice([1, 10, 1000, 60_000]), dice.choice([0.05, 0.3, 1]))


async def read_nothing(connection: Connection, dice: Random) -> None:
    """Ask for megabytes, again and again, and read none of them."""
    await connection.open(dice.choice([2048, 0]))
    async with asyncio.timeout(dice.uniform(0.1, 8)):
        for _ in range(dice.randint(1, 30)):
            await connection.send(_large_reply(dice))
    await asyncio.sleep(dice.uniform(0, 6))


async def send_slowly(connection: Connection, dice: Random) -> None:
    """Send a request byte by byte; stop at some place."""
    await connection.open()
    data = odd(dice) if dice.random() < 0.3 else ordinary(dice)
    head = data.find(b"\r\n\r\n") + 4
    begin = dice.choice([0, 0, head, dice.randrange(len(data))])  # a body is what comes slowly then
    await connection.send(data[:begin])
    await connection.trickle(data[begin:][: dice.choice([1, 20, 200, 1000])], dice.choice([0.001, 0.02, 0.2]))
    await connection.read(dice.choice([0.1, 5]))


async def send_a_part(connection: Connection, dice: Random) -> None:
    """Send some of a body, and wait for what comes of it."""
    await connection.open()
    data = http("POST", "/mcp", Content_Type="application/json", Content_Length=str(dice.randrange(2, 100_000)))
    await connection.send(data + b"{" + b" " * dice.choice([0, 1, 1000, 60_000]))
    await connection.read(dice.choice([0.1, 6]))


async def pipeline(connection: Connection, dice: Random) -> None:
    """Send many requests at once, and read the replies."""
    await _pipeline(connection, dice)
    await connection.read(1)


async def pipeline_and_read_nothing(connection: Connection, dice: Random) -> None:
    """Send many requests at once, and read none of the replies."""
    async with asyncio.timeout(5):
        await _pipeline(connection, dice)
    await asyncio.sleep(dice.uniform(0, 6))


async def send_much(connection: Connection, dice: Random) -> None:
    """Send a large body; in some cases go before it is answered."""
    await connection.open()
    await connection.send(large(dice, _BODY_BYTES + 1000))
    if dice.random() < 0.8:
        await connection.read(0.7)


async def be_odd(connection: Connection, dice: Random) -> None:
    """Send what is no valid HTTP, or almost; then, in some cases, go on as if it were."""
    await connection.open()
    for _ in range(dice.choice([1, 1, 3])):
        await connection.send(odd(dice))
        await connection.read(dice.choice([0.1, 0.1, 4]))
    await connection.send(ordinary(dice))
    await connection.read(0.2)


async def insist(connection: Connection, dice: Random) -> None:
    """Send one thing on many connections, one after the other."""
    data = dice.choice([ordinary(dice), odd(dice), odd(dice), echo("x" * 100_000)])
    data += b"x" * dice.choice([0, 60_000, 200_000])
    data = data[: dice.choice([len(data), dice.randint(1, len(data))])]
    seconds, reset = dice.choice([0, 0.1]), dice.random() < 0.5
    for _ in range(200):
        with contextlib.suppress(OSError):
            await connection.open()
            await connection.send(data)
            if seconds:
                await connection.read_some(seconds)
            connection.end(reset=reset)


async def go(connection: Connection, dice: Random) -> None:
    """Hang up at any moment."""
    await connection.open()
    data = dice.choice([ordinary, ordinary, odd])(dice)
    if dice.random() < 0.5:
        data = data[: dice.randrange(len(data))]
    await connection.send(data)
    await asyncio.sleep(dice.choice([0, 0, 0.001, 0.01, 0.1]))


async def subscribe(connection: Connection, dice: Random) -> None:
    """Listen to events for a while."""
    await connection.open()
    await connection.send(listen())
    if dice.random() < 0.3:
        await connection.send(ordinary(dice))
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(connection.read(_LONGEST_ROUND), dice.uniform(0.01, 8))


async def end_sending_first(connection: Connection, dice: Random) -> None:
    """Ask, say that there is no more to come, and read."""
    await connection.open()
    await connection.send(b"".join(ordinary(dice) for _ in range(dice.randint(1, 5))))
    connection.end_sending()
    await connection.read(2)


async def say_nothing(connection: Connection, dice: Random) -> None:
    """Be there."""
    await connection.open()
    if dice.random() < 0.5:
        await connection.send(ordinary(dice))
    await connection.read(dice.uniform(1, 12))


@dataclass
class Way:
    """A way to behave.

    Attributes:
        weight: how often, beside the others.
        most: how many connections may do so at once.
    """

    act: Callable[[Connection, Random], Coroutine[Any, Any, None]]
    weight: int
    most: int = CONNECTIONS
    running: int = 0


def ways() -> list[Way]:
    """All of them."""
    return [
        Way(behave, 20, 40),
        Way(read_slowly, 8, 12),
        Way(read_nothing, 8, 20),
        Way(send_slowly, 12, 20),
        Way(send_a_part, 8, 20),
        Way(pipeline, 6, 4),
        Way(pipeline_and_read_nothing, 6, 10),
        Way(send_much, 8, 3),
        Way(be_odd, 20),
        Way(insist, 6, 2),
        Way(go, 20),
        Way(subscribe, 8),
        Way(end_sending_first, 5),
        Way(say_nothing, 5),
    ]


async def attack(port: int, seed: str, seconds: float) -> Told:
    """Attack for a while."""
    told, choice, begun = Told(), ways(), time.monotonic()
    attackers = [
        asyncio.create_task(_attack_again_and_again(port, f"{seed}/{number}", told, choice))
        for number in range(CONNECTIONS)
    ]
    await asyncio.wait(attackers, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    told.share = time.process_time() / (time.monotonic() - begun)
    for each in attackers:
        each.cancel()
    ends = await asyncio.gather(*attackers, return_exceptions=True)
    assert not [end for end in ends if not isinstance(end, asyncio.CancelledError)]
    return told


async def act(port: int, name: str, told: Told, way: Way, *, shows: bool = False) -> None:
    """One round."""
    name = f"{name}/{way.act.__name__}"
    dice = Random(name)  # noqa: S311  # nothing is secret here
    told.rounds[way.act.__name__] += 1
    connection = Connection(port, name, told, shows=shows)
    try:
        async with asyncio.timeout(_LONGEST_ROUND):
            await way.act(connection, dice)
    except (OSError, TimeoutError):  # a replica may hang up, too
        told.rounds["cut"] += 1
    finally:
        connection.end(reset=dice.random() < 0.4)


async def _attack_again_and_again(port: int, name: str, told: Told, choice: list[Way]) -> None:
    dice, begun = Random(name), time.monotonic()  # noqa: S311
    for number in itertools.count():
        busy = time.process_time() > MOST_SHARE * (time.monotonic() - begun) + 1
        await asyncio.sleep(dice.uniform(0, 3 if busy else 0.5))
        free = [way for way in choice if way.running < way.most]
        way = dice.choices(free, [way.weight for way in free])[0]
        way.running += 1
        told.open = max(told.open, sum(each.running for each in choice))
        try:
            await act(port, f"{name}/{number}", told, way)
        finally:
            way.running -= 1


async def _pipeline(connection: Connection, dice: Random) -> None:
    await connection.open(dice.choice([2048, 0]))
    kinds = [
        http("GET", "/healthz"),
        http("GET", "/nothing", X=dice.choice(["", "x" * 2000])),
        echo("pipelined"),
        echo("x" * 10_000),
        stateless("tools/list", {}),
        ordinary(dice),
        b"\r\n",
    ]
    chosen = dice.sample(kinds, dice.randint(1, 3))
    size = dice.choice([1000, 60_000, 262_144])
    data = b"".join(chosen) * (1 + size // sum(map(len, chosen)))
    await connection.send(data[:size] if dice.random() < 0.5 else data)


def _large_reply(dice: Random) -> bytes:
    return echo("x" * dice.choice([1000, 50_000, 400_000]), dice.choice([1, 10]))


def main() -> None:
    """Attack; print what was done and what came back as JSON."""
    port = int(sys.argv[1])
    told = Told()
    if sys.argv[2] == "--round":
        name, _, asked = sys.argv[3].rpartition("/")
        (way,) = (way for way in ways() if way.act.__name__ == asked)
        asyncio.run(act(port, name, told, way, shows=True))
    else:
        told = asyncio.run(attack(port, sys.argv[2], float(sys.argv[3])))
    print(json.dumps(vars(told)))


if __name__ == "__main__":
    main()
