"""Tests of a Redis that is stopped and keeps its connections: the calls of sessions hold no places of plain calls."""

import asyncio
from pathlib import Path

import pytest

from conftest import until
from tests.calls import BOTH, FULL, request
from tests.mixed_load import MixedLoad
from tests.replicas import RedisServer, running
from tests.sessions.client import said, start
from tests.sessions.test_ask import answers

pytestmark = [pytest.mark.servers, pytest.mark.needs("redis"), pytest.mark.slow]

CALLS = {
    # `_meta` sends the call to the FastMCP path, which opens the session and looks in Redis whether it has ended.
    "ask": {"name": "echo", "arguments": {"message": "hi"}, "_meta": FULL},
    # The reply is an event stream, whose events go to Redis.
    "full": {"name": "chat", "arguments": {}},
}


@pytest.mark.parametrize("sessions", ["ask", "full"])
def test_session_calls_leave_places_for_plain_calls(tmp_path: Path, redis_server: RedisServer, sessions: str) -> None:
    """Redis is stopped, and 120 clients call in a session: all plain calls are answered. Then sessions go on."""
    packs = "server,tests.packs.asking,tests.packs.chatty"
    settings = {"HANDSHAKE_SESSIONS": sessions, "MCP_COMPONENTS": packs, "REDIS_URL": redis_server.url}
    with running(tmp_path, 1, **settings) as fleet:
        client = start(fleet.url)
        called = {"json": request("tools/call", CALLS[sessions]), "headers": {**client.headed(), "Accept": BOTH}}
        load = MixedLoad(fleet.urls[0], "session", "POST", "/mcp", called)
        asyncio.run(load.run(2))
        assert set(load.statuses) == {"session 200", "plain 200"}, load.statuses

        redis_server.hang()
        try:
            asyncio.run(load.run(8))
        finally:
            redis_server.go_on()
        print(f"HANDSHAKE_SESSIONS={sessions}, Redis stopped: {dict(load.statuses)}")
        assert load.statuses["plain 200"] >= 10
        assert not load.statuses.keys() - {"session 200", "session 503", "plain 200"}, load.statuses
        # Calls that ask nothing go on without Redis.
        assert load.statuses["session 200"] > 9 * load.statuses["session 503"], load.statuses

        assert said(client.call(fleet.urls, "greet", answers)) == "Hello, Ada!"
        assert client.ended(fleet.url).status_code == 204
        # Until the probe has an answer, the replica does not ask whether a session has ended.
        until(lambda: client.ended(fleet.url).status_code == 404, "the replica knows that the session has ended")
