"""Tests that a call is cancelled when its client disconnects."""

import asyncio
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, get_args

import pytest

from conftest import Server, StartServer, until
from tests.calls import FULL, call, text
from tests.damage import wire
from tests.replicas import BOTH, PACKS, Family, Fleet, asking

LOG_LEVEL = "io.modelcontextprotocol/logLevel"
MANY = 10_000
AT_ONCE = 250
"""Number of connections that are open at the same time."""
RESET_AT_CLOSE = struct.pack("ii", 1, 0)
"""Socket option that ends the connection with RST instead of FIN, like the end of a killed process."""
ALLOWED_GROWTH_KIB = 5 * 1024
"""Memory that the allocator may keep after 10,000 calls. A leak of 500 bytes per call would use about as much."""


@dataclass(frozen=True)
class Way:
    """A way to call a tool that waits."""

    tool: str
    family: Family = "handshake"
    stream: bool = False
    """Whether the reply has started as an event stream before the client disconnects."""
    full: bool = False
    """Whether the call takes the FastMCP path."""

    def __str__(self) -> str:
        path = "FastMCP path" if self.full else "fast path"
        return f"{self.tool}, {self.family} family, {path}, {'stream' if self.stream else 'JSON'}"

    def request(self, key: str) -> bytes:
        """Return the bytes of the HTTP request."""
        meta: dict[str, Any] = dict(FULL) if self.full else {}
        if self.tool == "report_and_wait":
            meta["progressToken"] = key
        if self.family == "stateless" and self.stream:
            meta[LOG_LEVEL] = "info"
        method, params = "tools/call", {"name": self.tool, "arguments": {"key": key}}
        if self.tool == "resource":
            method, params = "resources/read", {"uri": f"waiting://{key}"}
        asked = asking(self.family, method, params, **meta)
        return wire.post(asked["json"], **{**asked["headers"], **({"Accept": BOTH} if self.stream else {})})


FAMILIES: tuple[Family, ...] = get_args(Family)
WAYS = [
    *(Way(tool, family) for tool in ("wait", "wait_with_context") for family in FAMILIES),
    *(Way("log_and_wait", family, stream=True) for family in FAMILIES),
    *(Way("wait", family, full=True) for family in FAMILIES),
    *(Way("report_and_wait", full=full) for full in (False, True)),
    *(Way("report_and_wait", family, stream=True, full=full) for family in FAMILIES for full in (False, True)),
    Way("resource", full=True),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One replica. Without a disconnect, its waiting tools would wait until the time limit of a call, one minute."""
    settings = {"MCP_COMPONENTS": PACKS, "LOG_LEVEL": "WARNING", "MAX_IN_FLIGHT": str(2 * AT_ONCE)}
    with Server(tmp_path_factory.mktemp("disconnect") / "log", **settings) as found:
        yield found


def fate(server: Server, key: str) -> str:
    """Return the state of a call: waiting, cancelled or unknown."""
    return text(call(server.url, "fate", {"key": key}))


def disconnect(port: int, way: Way, key: str, server: Server) -> None:
    """Call a tool, wait until it runs, and close the connection. The replica must then cancel the call."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(way.request(key))
        if way.stream:
            assert b"text/event-stream" in connection.recv(65536)
        until(lambda: fate(server, key) == "waiting", f"{way}: the tool waits")
    until(lambda: fate(server, key) == "cancelled", f"{way}: the tool is cancelled")


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_the_call_is_cancelled(server: Server, way: Way) -> None:
    """A replica cancels a call at once when its client disconnects."""
    disconnect(server.port, way, str(way), server)


@pytest.mark.parametrize("way", [Way("wait"), Way("report_and_wait", stream=True)], ids=str)
def test_the_call_is_cancelled_behind_a_proxy(fleet: Fleet, way: Way) -> None:
    """A replica cancels a call when the proxy between client and replica closes its connection."""
    key = f"balancer {way}"
    with socket.create_connection(("127.0.0.1", int(fleet.url.rpartition(":")[2])), timeout=60) as connection:
        connection.sendall(way.request(key))

        def fates() -> set[str]:
            return {fate(replica, key) for replica in fleet.replicas} - {"unknown"}

        until(lambda: fates() == {"waiting"}, "the tool waits")
    until(lambda: fates() == {"cancelled"}, "the tool is cancelled")


def test_the_call_is_cancelled_with_json_replies(start_server: StartServer) -> None:
    """With JSON_RESPONSE=true a replica cancels a call at once, although no stream breaks."""
    server = start_server(MCP_COMPONENTS=PACKS, JSON_RESPONSE="true")
    for way in WAYS:
        disconnect(server.port, replace(way, stream=False), f"JSON {way}", server)


def load(server: Server) -> dict[str, int]:
    """Return the replica's tasks, memory, and waiting and cancelled calls."""
    found: dict[str, int] = call(server.url, "load")["structuredContent"]
    return found


async def flood(server: Server, count: int) -> None:
    """Make `count` calls of all kinds in groups. Close the connections of a group that waits, half of them with RST."""

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
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_CLOSE)
            writer.close()
            await writer.wait_closed()
        until(lambda: load(server)["waiting"] == 0, "all calls are cancelled")


@pytest.mark.slow
def test_ten_thousand_disconnects_leave_nothing(server: Server) -> None:
    """After 10,000 disconnects a replica has no more tasks and nearly the same memory, and answers as before."""
    asyncio.run(flood(server, 2 * AT_ONCE))  # The first flood lets pools and caches grow to their size.
    before = load(server)
    asyncio.run(flood(server, MANY))
    until(lambda: load(server)["tasks"] <= before["tasks"], f"the replica has no more than {before['tasks']} tasks")
    after = load(server)
    assert after["cancelled"] - before["cancelled"] == MANY
    assert after["kib"] - before["kib"] < ALLOWED_GROWTH_KIB
    assert text(call(server.url, "echo", {"message": "still here"})) == "still here"
    assert "Traceback" not in server.output
    assert "never retrieved" not in server.output


def test_a_client_that_disconnects_before_its_call_begins(server: Server) -> None:
    """A client that disconnects during or right after its request leaves no call and no task on the replica."""
    before = load(server)
    for number in range(50):
        whole = Way("wait").request(f"-early-{number}")
        for cut in (1, 40, len(whole) - 10, len(whole)):
            with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
                connection.sendall(whole[:cut])
    until(lambda: load(server)["waiting"] == 0, "no call waits")
    until(lambda: load(server)["tasks"] <= before["tasks"], "the replica has no more tasks than before")
    assert "Traceback" not in server.output


def test_listeners_that_disconnect_leave_nothing(server: Server) -> None:
    """A subscription ends with its connection and leaves no task. So more clients than the limit of 1,024 subscribe."""
    whole = wire.listen({"notifications": {"toolsListChanged": True}})
    before = load(server)
    for _ in range(1500):
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
            connection.sendall(whole)
            assert b"text/event-stream" in connection.recv(65536)
    until(lambda: load(server)["tasks"] <= before["tasks"], "the replica has no more tasks than before")
