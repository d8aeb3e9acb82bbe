"""Many failing calls (ENDURANCE_CALLS: 20,000, in the full run 200,000) leave nothing behind in a replica's memory."""

import asyncio
import contextlib
import json
import os
import socket
import struct
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.attacks.conftest import Attack
from tests.calls import request
from tests.damage.wire import http, listen, post, stateless

CALLS = int(os.environ.get("ENDURANCE_CALLS", "20000"))
CONNECTIONS = 8
_RESET = struct.pack("ii", 1, 0)
_DEAR = "add"
"""A tool that costs a caller's whole burst (`TOOL_COSTS`): a second call is refused."""
_REFUSED = "Too many calls"
_LATE = "did not finish within 0.05 s"
_ELSEWHERE = {"X_Forwarded_For": "192.0.2.1"}
"""Headers of a caller that has already made its one call of `_DEAR`."""


@dataclass(frozen=True)
class Failing:
    """A kind of failing call."""

    name: str
    written: Callable[[int], bytes]
    """A function that returns the request for a number."""
    expected: str
    """Text that the reply contains; empty if the client does not wait for the reply."""


def _both(name: str, method: str, params: dict[str, Any], expected: str, **headers: str) -> list[Failing]:
    """Return a call in both protocol families. A `#` in its method or params stands for the call's number."""
    text = json.dumps(params)

    def filled(number: int) -> dict[str, Any]:
        params: dict[str, Any] = json.loads(text.replace("#", str(number)))
        return params

    def handshake(number: int) -> bytes:
        return post(request(method.replace("#", str(number)), filled(number), number), **headers)

    def modern(number: int) -> bytes:
        return stateless(method.replace("#", str(number)), filled(number), number, **headers)

    return [Failing(f"{name}, handshake", handshake, expected), Failing(f"{name}, stateless", modern, expected)]


def _tool(name: str, expected: str, **arguments: Any) -> list[Failing]:
    return _both(f"tool {name} ({expected})", "tools/call", {"name": name, "arguments": arguments}, expected)


def _gone() -> list[Failing]:
    """Return calls that the client leaves before the reply."""
    wait = {"name": "never_ends", "arguments": {}}
    return [Failing(each.name, each.written, "") for each in _both("gone", "tools/call", wait, "")]


def _bodies() -> Iterator[Failing]:
    """Return request bodies that are not valid messages."""
    batch = [request("tools/call", {"name": "raises"}, number) for number in range(20)]
    for name, body, code in (
        ("no JSON", b'{"jsonrpc":"2.0","id":1,"method":"tools/c', -32700),
        ("deep", b"[" * 5000, -32700),
        ("batch", json.dumps(batch).encode(), -32600),
        ("no version", b'{"id":1,"method":"tools/list"}', -32600),
        ("no id", b'{"jsonrpc":"2.0","id":null,"method":"tools/list"}', -32600),
    ):
        yield Failing(name, lambda _, body=body: post(body), f'"code":{code}')  # type: ignore[misc]


KINDS = [
    *_tool("nothing_#", "Unknown tool"),
    *_tool("echo", "message", text="x#"),
    *_tool("echo", "other_", message="x", **{"other_#": "x" * 200}),
    *_tool("echo", "repeat must be", message="x#", repeat=11),
    *_tool("echo", "repeat", message="x#", repeat="many"),
    *_tool("raises", "raises"),
    *_tool("raises_for_the_caller", "no such account"),
    *_tool("exits", "exits"),
    *_tool("cancels_itself", "cancels_itself"),
    *_tool("returns_itself", "returns_itself"),
    *_tool("never_ends_by_default", _LATE),
    *_both("unknown resource", "resources/read", {"uri": "template://nothing/#"}, "nothing"),
    *_both("resource that isn't there", "resources/read", {"uri": "template://greeting/xx/#"}, "no greeting"),
    *_both("resource that raises", "resources/read", {"uri": "hostile://fails"}, '"code":-32'),
    *_both("unknown prompt", "prompts/get", {"name": "nothing_#"}, "nothing"),
    *_both("prompt without arguments", "prompts/get", {"name": "summarize"}, "text"),
    *_both("prompt that raises", "prompts/get", {"name": "fails"}, '"code":-32'),
    *_both("unknown method", "nothing/#", {}, '"code":-32601'),
    *_both("params that are wrong", "tools/call", {"name": ["#"]}, '"code":-32'),
    *_both("refused by rate", "tools/call", {"name": _DEAR, "arguments": {"a": 1, "b": 2}}, _REFUSED, **_ELSEWHERE),
    *_gone(),
    Failing("subscription beyond MAX_SUBSCRIPTIONS", lambda _: listen(), "MAX_SUBSCRIPTIONS"),
    Failing("envelope", lambda n: stateless("tools/list", {}, n, Mcp_Method=f"x{n}"), '"code":-32'),
    Failing("unknown job", lambda n: http("GET", f"/jobs/{n:032}"), "no such job"),
    *_bodies(),
]


class Client:
    """A client that keeps its connection until the replica closes it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(self, data: bytes) -> str:
        """Send a request and return the body of its reply."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(data)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = head.partition(b"\r\ncontent-length: ")[2].partition(b"\r\n")[0]
        body = await reader.readexactly(int(length))
        if b"\r\nconnection: close\r\n" in head:
            self.close()
        return body.decode()

    async def go(self, data: bytes, seconds: float) -> None:
        """Send a request on a new connection, and reset the connection before the reply comes."""
        _, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(data)
        await asyncio.sleep(seconds)
        connection: socket.socket = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        writer.close()

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def fail(port: int, numbers: range) -> Counter[str]:
    """Make failing calls of all kinds and return the number of calls of each kind."""
    left, done = iter(numbers), Counter[str]()

    async def some() -> None:
        client = Client(port)
        for number in left:
            kind = KINDS[number % len(KINDS)]
            if kind.expected:
                said = await client.call(kind.written(number))
                # Under this load any call may exceed its time limit. The test accepts this failure, too.
                assert kind.expected in said or _LATE in said, f"{kind.name}: {said[:1000]}"
            else:
                await client.go(kind.written(number), number % 20 / 1000)
            done[kind.name] += 1
        client.close()

    await asyncio.gather(*(some() for _ in range(CONNECTIONS)))
    return done


@contextlib.asynccontextmanager
async def exhausted(port: int) -> AsyncIterator[None]:
    """Keep the only allowed subscription open, and use up the rate limit of the caller `_ELSEWHERE`."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(listen())
    await reader.readuntil(b"notifications/subscriptions/acknowledged")
    client = Client(port)
    paid = await client.call(KINDS[[kind.expected for kind in KINDS].index(_REFUSED)].written(0))
    assert '"content"' in paid
    client.close()
    yield
    writer.close()


@pytest.mark.alone
@pytest.mark.timeout(600 + CALLS / 100)
def test_failing_calls_leave_nothing(attack: Attack) -> None:
    """The memory hardly grows after the first 5 percent of the failing calls, and other clients are still served."""
    limits = {"CALL_TIMEOUT_SECONDS": "0.05", "MAX_SUBSCRIPTIONS": "1", "TRUSTED_PROXIES": "127.0.0.1/32"}
    limits |= {"RATE_LIMIT": "1/s", "RATE_BURST": "1000000", "TOOL_COSTS": f"{_DEAR}=1000000"}
    replica = attack(MCP_COMPONENTS="server,tests.packs.hostile", **limits)
    port, early = replica.server.port, CALLS // 20

    async def endure() -> tuple[float, Counter[str]]:
        async with exhausted(port):
            done = await fail(port, range(early))
            before = replica.rss
            return before, done + await fail(port, range(early, CALLS))

    with replica.beside_good_client():
        begun = time.monotonic()
        before, done = asyncio.run(endure())
        after, seconds = replica.rss, time.monotonic() - begun
    print(
        f"{done.total()} calls of {len(done)} kinds, {done.total() / seconds:.0f} calls/s. "
        f"Memory of the replica: {before:.1f} MB after {early} calls, {after:.1f} MB at the end."
    )
    assert len(done) == len(KINDS)
    assert after < before + 10
