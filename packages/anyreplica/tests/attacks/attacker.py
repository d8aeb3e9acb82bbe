"""`python -m tests.attacks.attacker PORT SEED SECONDS`: attack a replica on this machine at random and report.

At most 150 rounds run at the same time, on a connection each, in one of the ways that `ways` lists. The name of a round
determines all that it sends: `python -m tests.attacks.attacker PORT --round SEED/3/14/go` repeats it and shows replies.

The attacker has few requests in flight, few large ones, and about half of a core: a server under full load may rightly
refuse the well-behaved client of `good_client.py`, too.
"""

import asyncio
import contextlib
import itertools
import json
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.attacks.counted_connection import Connection, Report
from tests.calls import BOTH
from tests.damage import requests
from tests.damage.dice import Dice
from tests.damage.large import large
from tests.damage.wire import echo, handshake, http, listen, post, stateless
from tests.sessions.client import EVERYTHING, VERSION

CONNECTIONS = 150
_LONGEST_ROUND = 15


def ordinary(dice: Random) -> bytes:
    """Return a request that gets its reply soon."""
    return requests.ordinary(Dice.seeded(dice))


def odd(dice: Random) -> bytes:
    """Return a request in which anything may be damaged."""
    return requests.broken(Dice.seeded(dice))


async def behave(connection: Connection, dice: Random) -> None:
    """Send a few requests on one connection, as any client does."""
    await connection.open()
    for _ in range(dice.randint(1, 12)):
        await connection.send(ordinary(dice))
        await connection.read(0.2)
        await asyncio.sleep(dice.choice([0, 0.01, 0.3]))


async def read_slowly(connection: Connection, dice: Random) -> None:
    """Read a reply slowly, in small parts with pauses."""
    await connection.open(2048)
    await connection.send(_large_reply(dice))
    await connection.read(4, dice.choice([1, 10, 1000, 60_000]), dice.choice([0.05, 0.3, 1]))


async def read_nothing(connection: Connection, dice: Random) -> None:
    """Send up to 30 requests, most with large replies, and read none of the replies."""
    await connection.open(dice.choice([2048, 0]))
    async with asyncio.timeout(dice.uniform(0.1, 8)):
        for _ in range(dice.randint(1, 30)):
            await connection.send(_large_reply(dice))
    await asyncio.sleep(dice.uniform(0, 6))


async def send_slowly(connection: Connection, dice: Random) -> None:
    """Send a request byte by byte, and stop before its end in some cases."""
    await connection.open()
    data = odd(dice) if dice.random() < 0.3 else ordinary(dice)
    head = data.find(b"\r\n\r\n") + 4
    begin = dice.choice([0, 0, head, dice.randrange(len(data))])  # if begin == head, only the body comes slowly
    await connection.send(data[:begin])
    await connection.trickle(data[begin:][: dice.choice([1, 20, 200, 1000])], dice.choice([0.001, 0.02, 0.2]))
    await connection.read(dice.choice([0.1, 5]))


async def send_a_part(connection: Connection, dice: Random) -> None:
    """Send a part of a body, and wait for a reply."""
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
    """Send a large body; in some cases leave before the reply."""
    await connection.open()
    await connection.send(large(dice, 4 * 1024 * 1024 + 1000))
    if dice.random() < 0.8:
        await connection.read(0.7)


async def be_odd(connection: Connection, dice: Random) -> None:
    """Send invalid or nearly invalid HTTP, and then continue with an ordinary request."""
    await connection.open()
    for _ in range(dice.choice([1, 1, 3])):
        await connection.send(odd(dice))
        await connection.read(dice.choice([0.1, 0.1, 4]))
    await connection.send(ordinary(dice))
    await connection.read(0.2)


async def insist(connection: Connection, dice: Random) -> None:
    """Send the same data on many connections, one after the other."""
    data = dice.choice([ordinary(dice), odd(dice), odd(dice), echo("x" * 100_000)])
    data += b"x" * dice.choice([0, 60_000, 200_000])
    data = data[: dice.choice([len(data), dice.randint(1, len(data))])]
    seconds, reset = dice.choice([0, 0.1]), dice.random() < 0.5
    for number in range(1, 201):
        with contextlib.suppress(OSError):
            await connection.open()
            await connection.send(data)
            if seconds:
                await connection.read_some(seconds)
            elif number % 10 == 0:  # without this pause, 200 requests may be in flight at the same time
                await connection.read_some(0.5)
            connection.end(reset=reset)


async def go(connection: Connection, dice: Random) -> None:
    """Close the connection at a random moment."""
    await connection.open()
    data = dice.choice([ordinary, ordinary, odd])(dice)
    if dice.random() < 0.5:
        data = data[: dice.randrange(len(data))]
    await connection.send(data)
    await asyncio.sleep(dice.choice([0, 0, 0.001, 0.01, 0.1]))


async def subscribe(connection: Connection, dice: Random) -> None:
    """Subscribe to events, and end the connection after a random time."""
    await connection.open()
    await connection.send(listen())
    if dice.random() < 0.3:
        await connection.send(ordinary(dice))
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(connection.read(_LONGEST_ROUND), dice.uniform(0.01, 8))


async def end_sending_first(connection: Connection, dice: Random) -> None:
    """Send requests, close the sending side, and read the replies."""
    await connection.open()
    await connection.send(b"".join(ordinary(dice) for _ in range(dice.randint(1, 5))))
    connection.end_sending()
    await connection.read(2)


async def ask_and_hang_up(connection: Connection, dice: Random) -> None:
    """Start a session from one of many addresses, call tools that ask or log; answer, cancel, resume or leave."""
    headers = {"Accept": BOTH, "X_Forwarded_For": f"192.0.2.{dice.randrange(20)}"}
    await connection.open()
    hello = {"protocolVersion": VERSION, "capabilities": EVERYTHING, "clientInfo": {"name": "a", "version": "1"}}
    await connection.send(handshake("initialize", hello, 1, **headers))
    session = await connection.find(rb"mcp-session-id: (\S+)", 5)
    if session is None:
        return
    headers["Mcp_Session_Id"] = session
    text = "x" * dice.choice([10, 10_000, 100_000, 390_000])
    calls: list[dict[str, Any]] = [
        {"name": "greet", "arguments": {}},
        {"name": "two_at_once", "arguments": {}},
        {"name": "ask_about", "arguments": {"text": text}},
        {"name": "log_and_repeat", "arguments": {"text": text, "times": dice.choice([1, 1, 10])}},
        {"name": "log_often", "arguments": {"text": text[:2000], "times": 200}},
    ]
    for number in range(dice.randint(1, 4)):
        await connection.open()
        await connection.send(handshake("tools/call", dice.choice(calls), number, **headers))
        event = await connection.find(rb"id: (\S+\.\d+)\r", 1)
        asked = await connection.find(rb'"id":"([\w-]+)"', dice.choice([0, 0.5]))
        chosen = dice.randrange(4)
        if chosen == 0 and event is not None:
            connection.end(reset=dice.random() < 0.5)
            await connection.open(dice.choice([2048, 0]))
            await connection.send(http("GET", "/mcp", b"", **headers, Last_Event_ID=event))
            await connection.read(dice.choice([0, 0.3]))
        elif chosen == 1 and asked is not None:
            await connection.open()
            answer = {"action": "accept", "content": {"value": text * dice.choice([1, 5])}}
            await connection.send(post({"jsonrpc": "2.0", "id": asked, "result": answer}, **headers))
            await connection.read(0.5)
        elif chosen == 2:
            await connection.open()
            cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
            await connection.send(post(cancel, **headers))
            await connection.read(0.2)


async def say_nothing(connection: Connection, dice: Random) -> None:
    """Stay connected and send one request or nothing."""
    await connection.open()
    if dice.random() < 0.5:
        await connection.send(ordinary(dice))
    await connection.read(dice.uniform(1, 12))


@dataclass
class Way:
    """A way to behave: its relative frequency, and how many connections may behave so at the same time."""

    act: Callable[[Connection, Random], Coroutine[Any, Any, None]]
    weight: int
    most: int = CONNECTIONS
    running: int = 0


def ways() -> list[Way]:
    """Return all ways to behave, with their weights and the most connections."""
    bounded = {behave: (20, 40), read_slowly: (8, 12), read_nothing: (8, 20), send_slowly: (12, 20)}
    bounded |= {send_a_part: (8, 20), pipeline: (6, 4), pipeline_and_read_nothing: (6, 10), send_much: (8, 3)}
    bounded |= {insist: (6, 2), ask_and_hang_up: (12, 8)}
    free = {be_odd: 20, go: 20, subscribe: 8, end_sending_first: 5, say_nothing: 5}
    return [Way(act, *each) for act, each in bounded.items()] + [Way(act, weight) for act, weight in free.items()]


async def attack(port: int, seed: str, seconds: float) -> Report:
    """Attack for `seconds` and return the report."""
    report, choice, begun = Report(), ways(), time.monotonic()
    runs = (_attack_again_and_again(port, f"{seed}/{number}", report, choice) for number in range(CONNECTIONS))
    attackers = [asyncio.create_task(each) for each in runs]
    await asyncio.wait(attackers, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    report.share = time.process_time() / (time.monotonic() - begun)
    for each in attackers:
        each.cancel()
    ends = await asyncio.gather(*attackers, return_exceptions=True)
    assert not [end for end in ends if not isinstance(end, asyncio.CancelledError)]
    return report


async def act(port: int, name: str, report: Report, way: Way, *, shows: bool = False) -> None:
    """Run one round."""
    name = f"{name}/{way.act.__name__}"
    dice = Random(name)  # noqa: S311  # nothing is secret here
    report.rounds[way.act.__name__] += 1
    connection = Connection(port, name, report, shows=shows)
    try:
        async with asyncio.timeout(_LONGEST_ROUND):
            await way.act(connection, dice)
    except (OSError, TimeoutError):  # the replica may close the connection, too
        report.rounds["cut"] += 1
    finally:
        connection.end(reset=dice.random() < 0.4)


async def _attack_again_and_again(port: int, name: str, report: Report, choice: list[Way]) -> None:
    dice, begun = Random(name), time.monotonic()  # noqa: S311
    for number in itertools.count():
        busy = time.process_time() > 0.4 * (time.monotonic() - begun) + 1  # the share of a core
        await asyncio.sleep(dice.uniform(0, 3 if busy else 0.5))
        free = [way for way in choice if way.running < way.most]
        way = dice.choices(free, [way.weight for way in free])[0]
        way.running += 1
        report.open = max(report.open, sum(each.running for each in choice))
        try:
            await act(port, f"{name}/{number}", report, way)
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
    """Attack, and print the report as JSON."""
    port = int(sys.argv[1])
    report = Report()
    if sys.argv[2] == "--round":
        name, _, asked = sys.argv[3].rpartition("/")
        (way,) = (way for way in ways() if way.act.__name__ == asked)
        asyncio.run(act(port, name, report, way, shows=True))
    else:
        report = asyncio.run(attack(port, sys.argv[2], float(sys.argv[3])))
    print(json.dumps(vars(report)))


if __name__ == "__main__":
    main()
