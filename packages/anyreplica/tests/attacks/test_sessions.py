"""Limits of sessions: many event streams, and many calls that wait for their clients."""

import contextlib
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.conftest import Attack, Attacked
from tests.calls import BOTH
from tests.damage import wire
from tests.replicas import RedisServer
from tests.sessions.client import ADA, EVERYTHING, VERSION

pytestmark = [pytest.mark.alone, pytest.mark.needs("redis")]

MANY = 1000
_HELLO = {"protocolVersion": VERSION, "capabilities": EVERYTHING, "clientInfo": {"name": "many", "version": "1"}}
_GREET = {"name": "greet", "arguments": {}}


class Reader:
    """A connection with an event stream."""

    def __init__(self, connection: socket.socket, data: bytes) -> None:
        connection.sendall(data)
        self._file = connection.makefile("rb")
        self.status = self._file.readline().split(b" ", 2)[1]

    def close(self) -> None:
        """Close the file. The socket stays open until its file is closed, too."""
        self._file.close()

    def message(self) -> dict[str, Any]:
        """Return the JSON of the next event with data."""
        for line in self._file:
            if line.startswith(b"data: {"):
                found: dict[str, Any] = json.loads(line.removeprefix(b"data: "))
                return found
        return {}


def sessions(connection: socket.socket, number: int) -> list[dict[str, str]]:
    """Start sessions, and return the headers of a request in each of them."""
    found = []
    for _ in range(number):
        connection.sendall(wire.handshake("initialize", _HELLO))
        head = wire.reply(connection).partition(b"\r\n\r\n")[0].decode()
        headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:])
        found.append({"Mcp_Session_Id": headers["mcp-session-id"], "Accept": BOTH})
    return found


def opened(replica: Attacked, stack: contextlib.ExitStack, data: bytes) -> Reader:
    """Send a request over a new connection, which stays open until the stack ends."""
    reader = Reader(stack.enter_context(replica.connect()), data)
    stack.callback(reader.close)
    return reader


def test_a_thousand_streams_and_a_thousand_waiting_calls(attack: Attack, tmp_path: Path) -> None:
    """A replica holds 1,000 idle streams (at most 24 kB each) and 1,000 waiting calls, serves others, refuses more."""
    with RedisServer(tmp_path / "redis.log") as redis, contextlib.ExitStack() as stack:
        limits = {"MAX_CONNECTIONS": "3000", "MAX_SUBSCRIPTIONS": "1000", "MAX_CLIENT_REQUESTS": "2000"}
        settings = {"REDIS_URL": redis.url, "HANDSHAKE_SESSIONS": "full", "MAX_REQUESTS_PER_CONNECTION": "0"}
        replica = attack(MCP_COMPONENTS="server,tests.packs.asking", **settings, **limits)
        mine = stack.enter_context(replica.connect())
        *clients, late = sessions(mine, MANY + 1)
        with replica.beside_good_client():
            for number, headers in enumerate(clients):
                if number == MANY // 2:  # the first ones fill what the replica remembers of heads
                    before = replica.rss
                assert opened(replica, stack, wire.http("GET", "/mcp", b"", **headers)).status == b"200"
            each = (replica.rss - before) * 1e6 / (MANY - MANY // 2)
            assert opened(replica, stack, wire.http("GET", "/mcp", b"", **late)).status == b"503"
            before = replica.rss
            calls = [opened(replica, stack, wire.handshake("tools/call", _GREET, 7, **headers)) for headers in clients]
            questions = [call.message()["id"] for call in calls]
            print(f"{each / 1000:.1f} kB per stream, {(replica.rss - before) * 1e6 / MANY / 1000:.1f} kB per call.")
            mine.sendall(wire.handshake("tools/call", _GREET, 7, **late))
            assert b"1000 requests to clients, half of MAX_CLIENT_REQUESTS" in wire.reply(mine)
            for headers, question in zip(clients, questions, strict=True):
                mine.sendall(wire.post({"jsonrpc": "2.0", "id": question, "result": ADA}, **headers))
                assert b" 202 " in wire.reply(mine)[:14]
            for call in calls:
                assert call.message()["result"]["content"][0]["text"] == "Hello, Ada!"
        assert each <= 24_000  # 19 to 21 kB were measured
