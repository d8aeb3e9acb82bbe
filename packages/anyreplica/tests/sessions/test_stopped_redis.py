"""Tests of a Redis that is stopped and keeps its connections: the calls of sessions hold no places of plain calls."""

import asyncio
import collections
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.calls import BOTH, FULL, HEADERS, request
from tests.replicas import RedisServer, running
from tests.sessions.client import AskedClient, said, start
from tests.sessions.test_ask import answers

pytestmark = [pytest.mark.needs("redis"), pytest.mark.slow]

CLIENTS = 120
"""Number of clients with a session: more than a replica has places (MAX_IN_FLIGHT is 100)."""
PLAIN = 10
"""Number of clients without a session."""
CALLS = {
    # `_meta` sends the call to the FastMCP path, which opens the session and looks in Redis whether it has ended.
    "ask": {"name": "echo", "arguments": {"message": "hi"}, "_meta": FULL},
    # The reply is an event stream, whose events go to Redis.
    "full": {"name": "chat", "arguments": {}},
}


class Load:
    """Clients that call one replica at the same time: some in a session, some without."""

    def __init__(self, url: str, client: AskedClient, called: dict[str, Any]) -> None:
        self.url = f"{url}/mcp"
        self.statuses: collections.Counter[str] = collections.Counter()
        self._in_session = {"json": request("tools/call", called), "headers": {**client.headed(), "Accept": BOTH}}
        plain = request("tools/call", {"name": "echo", "arguments": {"message": "hi"}})
        self._plain = {"json": plain, "headers": HEADERS}

    async def run(self, seconds: float) -> collections.Counter[str]:
        """Call for some seconds, and return how often each kind of client got each status."""
        self.statuses.clear()
        until = time.monotonic() + seconds
        sessions = (self._call("session", self._in_session, 0.8, until, n / CLIENTS) for n in range(CLIENTS))
        plain = (self._call("plain", self._plain, 0.1, until, n / 100) for n in range(PLAIN))
        await asyncio.gather(*sessions, *plain)
        return self.statuses

    async def _call(self, kind: str, asked: dict[str, Any], pause: float, until: float, first: float) -> None:
        await asyncio.sleep(first)
        # A client for each caller: one for all would need more CPU time than the replica.
        async with httpx.AsyncClient(verify=False, timeout=60) as http:
            while time.monotonic() < until:
                reply = await http.post(self.url, **asked)
                failed = " with an error" if '"isError":true' in reply.text else ""
                self.statuses[f"{kind} {reply.status_code}{failed}"] += 1
                await asyncio.sleep(pause)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Contexts that end with the test."""
    with ExitStack() as found:
        yield found


@pytest.mark.parametrize("sessions", ["ask", "full"])
def test_session_calls_leave_the_places_of_plain_calls(tmp_path: Path, stack: ExitStack, sessions: str) -> None:
    """Redis is stopped, and 120 clients call in a session: all plain calls are answered.

    When Redis goes on, the same replica asks its clients again.
    """
    redis = stack.enter_context(RedisServer(tmp_path / "redis.log"))
    packs = "tests.sample,tests.packs.asking,tests.packs.chatty"
    settings = {"HANDSHAKE_SESSIONS": sessions, "MCP_COMPONENTS": packs, "REDIS_URL": redis.url}
    fleet = stack.enter_context(running(tmp_path, 1, **settings))
    client = start(fleet.url)
    load = Load(fleet.urls[0], client, CALLS[sessions])
    asyncio.run(load.run(2))
    assert set(load.statuses) == {"session 200", "plain 200"}, load.statuses

    redis.hang()
    try:
        asyncio.run(load.run(8))
    finally:
        redis.go_on()
    print(f"HANDSHAKE_SESSIONS={sessions}, Redis stopped: {dict(load.statuses)}")
    assert load.statuses["plain 200"] >= 200
    assert not load.statuses.keys() - {"session 200", "session 503", "plain 200"}, load.statuses
    # Calls that ask nothing go on without Redis.
    assert load.statuses["session 200"] > 9 * load.statuses["session 503"], load.statuses

    assert said(client.call(fleet.urls, "greet", answers)) == "Hello, Ada!"
    assert client.ended(fleet.url).status_code == 204
    assert client.ended(fleet.url).status_code == 404
