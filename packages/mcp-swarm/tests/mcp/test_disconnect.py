"""A caller that goes away takes its call with it."""

import asyncio
import json
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, get_args

import pytest

from conftest import Server, StartServer, until
from tests.calls import ENVELOPE, FULL, call, text
from tests.replicas import BOTH, PACKS, Family, Fleet, asking, streaming

pytestmark = pytest.mark.slow

LOG_LEVEL = "io.modelcontextprotocol/logLevel"
MANY = 10_000
AT_ONCE = 250
"""Connections that are open at a time."""
AT_THE_CLOSE_RESET = struct.pack("ii", 1, 0)
"""As of a process that was killed: the connection ends with RST rather than FIN."""
FORGIVEN_KIB = 5 * 1024
"""What the allocator may keep of ten thousand calls; 500 bytes that each left behind would be as much."""


@dataclass(frozen=True)
class Way:
    """A way to call a tool that waits."""

    tool: str
    family: Family = "handshake"
    stream: bool = False
    """Whether the reply has begun, as an event stream, before the caller goes."""
    full: bool = False
    """Whether it takes the FastMCP path."""

    def __str__(self) -> str:
        path = "FastMCP path" if self.full else "fast path"
        return f"{self.tool}, {self.family} family, {path}, {'stream' if self.stream else 'JSON'}"

    def request(self, key: str) -> bytes:
        """The HTTP request."""
        meta: dict[str, Any] = dict(FULL) if self.full else {}
        if self.tool == "report_and_wait":
            meta["progressToken"] = key
        if self.family == "stateless" and self.stream:
            meta[LOG_LEVEL] = "info"
        method, params = "tools/call", {"name": self.tool, "arguments": {"key": key}}
        if self.tool == "resource":
            method, params = "resources/read", {"uri": f"waiting://{key}"}
        asked = asking(self.family, method, params, **meta)
        body = json.dumps(asked["json"]).encode()
        headers = {**asked["headers"], "Host": "127.0.0.1", "Content-Length": str(len(body))}
        if self.stream:
            headers["Accept"] = BOTH
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body


WAYS = [
    Way("wait"),
    Way("wait", family="stateless"),
    Way("wait_with_context"),
    Way("wait_with_context", family="stateless"),
    Way("log_and_wait", stream=True),
    Way("log_and_wait", family="stateless", stream=True),
    Way("wait", full=True),
    Way("wait", family="stateless", full=True),
    Way("report_and_wait"),
    Way("report_and_wait", stream=True),
    Way("report_and_wait", family="stateless", stream=True),
    Way("report_and_wait", full=True),
    Way("report_and_wait", stream=True, full=True),
    Way("report_and_wait", family="stateless", stream=True, full=True),
    Way("resource", full=True),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One replica, whose calls would wait for a minute."""
    settings = {"MCP_COMPONENTS": PACKS, "LOG_LEVEL": "WARNING", "MAX_IN_FLIGHT": str(2 * AT_ONCE)}
    found = Server(tmp_path_factory.mktemp("disconnect") / "log", **settings)
    found.wait_ready()
    yield found
    found.stop()


def fate(server: Server, key: str) -> str:
    """What became of a call."""
    return text(call(server.url, "fate", {"key": key}))


def goes_away(port: int, way: Way, key: str, server: Server) -> None:
    """Call, see the call wait, and close the connection; the call must end by that."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(way.request(key))
        if way.stream:
            assert b"text/event-stream" in connection.recv(65536)
        until(lambda: fate(server, key) == "waiting", f"{way}: the tool waits")
    until(lambda: fate(server, key) == "cancelled", f"{way}: the tool is cancelled")


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_the_call_is_cancelled(server: Server, way: Way) -> None:
    """At once, not when its time is over: nobody is there for whom to go on."""
    goes_away(server.port, way, str(way), server)


@pytest.mark.parametrize("way", [WAYS[0], WAYS[9]], ids=str)
def test_it_is_behind_a_balancer_too(fleet: Fleet, way: Way) -> None:
    """Which closes its own connection to the replica."""
    key = f"balancer {way}"
    with socket.create_connection(("127.0.0.1", int(fleet.url.rpartition(":")[2])), timeout=30) as connection:
        connection.sendall(way.request(key))

        def fates() -> set[str]:
            return {fate(replica, key) for replica in fleet.replicas} - {"unknown"}

        until(lambda: fates() == {"waiting"}, "the tool waits")
    until(lambda: fates() == {"cancelled"}, "the tool is cancelled")


def test_json_always_makes_no_difference(start_server: StartServer) -> None:
    """With JSON_RESPONSE=true there is no stream that could break, and what the tool says goes nowhere."""
    server = start_server(MCP_COMPONENTS=PACKS, JSON_RESPONSE="true")
    for way in WAYS:
        goes_away(server.port, replace(way, stream=False), f"JSON {way}", server)


def test_the_sdks_own_mode_makes_none_either(start_server: StartServer) -> None:
    """JSON_RESPONSE=false, where the SDK reads the connection."""
    server = start_server(MCP_COMPONENTS=PACKS, JSON_RESPONSE="false")
    for family in get_args(Family):
        way = Way("report_and_wait", family, stream=True, full=True)
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
            connection.sendall(way.request(family))
            until(lambda key=family: fate_in_stream(server, key) == "waiting", f"{way}: the tool waits")  # type: ignore[misc]
        until(lambda key=family: fate_in_stream(server, key) == "cancelled", f"{way}: the tool is cancelled", 10)  # type: ignore[misc]


def fate_in_stream(server: Server, key: str) -> str:
    """What became of a call, of a server whose replies are streams."""
    asked = asking("handshake", "tools/call", {"name": "fate", "arguments": {"key": key}})
    with streaming(server.url, asked) as (_, events):
        return text(next(events)["result"])


def load(server: Server) -> dict[str, int]:
    """What the replica holds."""
    found: dict[str, int] = call(server.url, "load")["structuredContent"]
    return found


async def flood(server: Server, count: int) -> None:
    """Make `count` calls in all ways, in groups; when all of a group wait, their callers go, half of them rudely."""

    async def begin(number: int) -> asyncio.StreamWriter:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        way = WAYS[number % len(WAYS)]
        writer.write(way.request(f"-{number}"))
        if way.stream:
            await reader.readuntil(b"data: ")
        return writer

    for first in range(0, count, AT_ONCE):
        writers = await asyncio.gather(*(begin(number) for number in range(first, first + AT_ONCE)))
        until(lambda: load(server)["waiting"] == AT_ONCE, f"{AT_ONCE} calls wait")
        for number, writer in enumerate(writers):
            if number % 2:
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_THE_CLOSE_RESET)
            writer.close()
            await writer.wait_closed()
        until(lambda: load(server)["waiting"] == 0, "they are cancelled")


def test_ten_thousand_disconnects_leave_nothing(server: Server) -> None:
    """No task, no memory; and the server answers as before."""
    asyncio.run(flood(server, 2 * AT_ONCE))  # what grows once has grown
    before = load(server)
    asyncio.run(flood(server, MANY))
    until(lambda: load(server)["tasks"] <= before["tasks"], f"no more than {before['tasks']} tasks")
    after = load(server)
    assert after["cancelled"] - before["cancelled"] == MANY
    assert after["kib"] - before["kib"] < FORGIVEN_KIB
    assert text(call(server.url, "echo", {"message": "still here"})) == "still here"
    assert "Traceback" not in server.output
    assert "never retrieved" not in server.output


def test_a_caller_that_goes_before_its_call_begins(server: Server) -> None:
    """In the middle of the head, of the body, or right after: nothing is left of it."""
    before = load(server)
    for number in range(50):
        whole = Way("wait").request(f"-early-{number}")
        for cut in (1, 40, len(whole) - 10, len(whole)):
            with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
                connection.sendall(whole[:cut])
    until(lambda: load(server)["waiting"] == 0, "no call waits")
    until(lambda: load(server)["tasks"] <= before["tasks"], "no task is left")
    assert "Traceback" not in server.output


def test_listeners_that_go_leave_nothing(server: Server) -> None:
    """A subscription ends with its connection; there is room for 1024 at once."""

    def body() -> bytes:
        asked = asking("stateless", "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        assert asked["json"]["params"]["_meta"] == ENVELOPE
        return json.dumps(asked["json"]).encode()

    content = body()
    headers = {**asking("stateless", "subscriptions/listen")["headers"], "Accept": BOTH, "Host": "127.0.0.1"}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    whole = f"POST /mcp HTTP/1.1\r\n{head}Content-Length: {len(content)}\r\n\r\n".encode() + content
    before = load(server)
    for _ in range(1500):
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
            connection.sendall(whole)
            assert b"text/event-stream" in connection.recv(65536)
    until(lambda: load(server)["tasks"] <= before["tasks"], "no task is left")
