"""Tests of a failure and a restart of Redis while clients use the replicas."""

from pathlib import Path

import httpx
import pytest

from conftest import until
from tests.calls import call, text
from tests.mcp.any_replica.listeners import ALL_LISTS, hears, listening
from tests.mcp.any_replica.rounds import rounds
from tests.replicas import PACKS, RedisServer, asking, running

pytestmark = pytest.mark.needs("redis")


def test_redis_may_go_away_and_come_back(redis_server: RedisServer, tmp_path: Path) -> None:
    """Without Redis, calls succeed and listeners hear their own replica; afterwards they hear all replicas again."""
    with running(tmp_path, 2, MCP_COMPONENTS=PACKS, REDIS_URL=redis_server.url) as fleet:
        first, second = fleet.replicas
        with listening(first, ALL_LISTS) as here, listening(second, ALL_LISTS) as there:
            heard_here, heard_there = hears(here), hears(there)

            def publish_until(heard: list[str], what: str) -> None:
                before = len(heard)
                until(lambda: bool(call(second.url, "test_trigger_tool_change")) and len(heard) > before, what)

            publish_until(heard_here, "an event of one replica reaches a listener of the other replica")
            redis_server.kill()
            until(lambda: "Redis can't be reached" in first.output, "the replica logs that Redis cannot be reached")
            assert text(call(fleet.url, "echo", {"message": "on"})) == "on"
            tool = {"name": "test_input_required_result_multi_round", "arguments": {}}
            assert text(rounds(fleet.urls, "tools/call", tool)[0]) == "Ada likes blue."
            publish_until(heard_there, "a listener receives an event of its own replica")
            assert set(heard_here + heard_there) == {"notifications/tools/list_changed"}
            redis_server.start()
            publish_until(heard_here, "a listener receives events again on the same stream as before the outage")
        with listening(first, ALL_LISTS) as late:
            heard_late, changed = hears(late), "notifications/prompts/list_changed"
            until(
                lambda: bool(call(second.url, "test_trigger_prompt_change")) and changed in heard_late,
                "a new listener receives an event",
            )


def test_replicas_may_start_before_redis(redis_server: RedisServer, tmp_path: Path) -> None:
    """A replica can start before Redis, because a booting node starts its services in any order."""
    redis_server.kill()
    with running(tmp_path, 2, MCP_COMPONENTS=PACKS, REDIS_URL=redis_server.url) as fleet:
        first, second = fleet.replicas
        with listening(first, ALL_LISTS) as events:
            heard = hears(events)
            redis_server.start()
            until(
                lambda: bool(call(second.url, "test_trigger_tool_change")) and bool(heard),
                "an event of one replica reaches a listener of the other replica",
            )


def test_a_call_does_not_wait_long_for_a_redis_that_is_gone(redis_server: RedisServer, tmp_path: Path) -> None:
    """Without Redis a call takes less than 3 seconds. A call of ten seconds would look like a hang to an agent."""
    with running(tmp_path, 1, MCP_COMPONENTS=PACKS, REDIS_URL=redis_server.url) as fleet:
        redis_server.kill()
        for _ in range(3):
            with httpx.Client(verify=False, timeout=3) as client:
                asked = asking("handshake", "tools/call", {"name": "touch", "arguments": {"uri": "a://b"}})
                assert client.post(f"{fleet.urls[0]}/mcp", **asked).status_code == 200
            with httpx.Client(verify=False, timeout=3) as client:
                begun = asking("stateless", "tools/call", {"name": "transfer", "arguments": {"amount": 1}})
                state = client.post(f"{fleet.urls[0]}/mcp", **begun).json()["result"]["requestState"]
                answered = {"inputResponses": {"sure": {"action": "accept", "content": {}}}, "requestState": state}
                ended = asking("stateless", "tools/call", {**begun["json"]["params"], **answered})
                assert text(client.post(f"{fleet.urls[0]}/mcp", **ended).json()["result"]) == "accept: 1"
