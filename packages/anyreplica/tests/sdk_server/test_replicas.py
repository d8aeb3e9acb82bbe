"""Replicas of servers of the SDK: any replica goes on with a call, and the clients of all replicas hear of changes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastmcp.client.elicitation import ElicitResult

from conftest import ROOT, StartServer, until
from tests.calls import call, text
from tests.fastmcp_server.clients import conversation, value_of
from tests.mcp.any_replica.listeners import listening
from tests.replicas import Family, Fleet, RedisServer, messages, running
from tests.sessions import resuming
from tests.sessions.client import start
from tests.sessions.resuming import stream

_SERVED = Path(__file__).parent.relative_to(ROOT) / "served"
pytestmark = pytest.mark.needs("redis")


@pytest.fixture(scope="module")
def shops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two replicas of the `MCPServer` that share a Redis and keep sessions."""
    folder = tmp_path_factory.mktemp("shops")
    command = ("-m", "anyreplica", "run", str(_SERVED / "shop.py"))
    settings = {"MCP_COMPONENTS": "", "HANDSHAKE_SESSIONS": "full", "LOG_LEVEL": "INFO"}
    with (
        RedisServer(folder / "redis.log") as redis,
        running(folder, 2, command=command, REDIS_URL=redis.url, **settings) as fleet,
    ):
        yield fleet


@pytest.mark.anyio
@pytest.mark.parametrize("family", ["handshake", "stateless"])
async def test_a_call_asks_its_client(shops: Fleet, family: Family) -> None:
    """The answer may reach another replica than the question: by a session, or by the sealed state of the call."""

    async def agree(*_: Any) -> ElicitResult[dict[str, bool]]:
        return ElicitResult(action="accept", content={"sure": True})

    async with conversation(shops, family, elicitation_handler=agree) as client:
        assert [value_of(await client.call_tool("buy", {"item": "tea"})) for _ in range(2)] == ["tea: True"] * 2


def test_listeners_hear_of_the_changes_of_every_replica(shops: Fleet) -> None:
    """`ctx.notify_resource_updated` reaches the clients of the other replica."""
    first, second = shops.replicas
    with listening(first, {"resourceSubscriptions": ["shop://today"]}) as events:
        call(second.url, "change")
        assert next(events)["params"]["uri"] == "shop://today"


def test_a_session_gets_notifications_that_belong_to_no_call(shops: Fleet) -> None:
    """They reach the event stream of the client's session at the other replica, and no other session."""
    first, second = (each.url for each in shops.replicas)
    client, other = start(first), start(first)
    with stream(client, first) as reply, stream(other, first) as reply_of_other:
        found, found_by_other = messages(reply), messages(reply_of_other)
        assert resuming.call(client, second, "tell_session", text="one") == "told"
        assert resuming.call(other, second, "tell_session", text="two") == "told"
        assert [next(found)["params"].get("uri") for _ in range(2)] == ["shop://one", None]
        assert [next(found_by_other)["params"].get("uri") for _ in range(2)] == ["shop://two", None]


def test_a_task_that_ends_the_process_ends_only_its_call(shops: Fleet) -> None:
    """`sys.exit()` in a task of a tool fails the call."""
    replica = shops.replicas[0]
    assert text(call(replica.url, "leave_a_task")) == "Error executing tool leave_a_task"
    assert replica.process.poll() is None
    assert call(replica.url, "add", {"a": 1})["structuredContent"] == {"result": 3}


def test_a_low_level_server_runs_with_one_command(start_server: StartServer) -> None:
    """`run --replicas` serves the object of a file. Nobody asks it for its tools before a client does."""
    server = start_server(command=("-m", "anyreplica", "run", str(_SERVED / "low.py"), "--replicas", "2"))
    text_of_start = "the server itself lists its components to clients"
    until(lambda: text_of_start in server.output, "the command says who lists the tools")
    server.wait_ready()
    served_by = {text(call(server.url, "echo", {"text": "x"})) for _ in range(4)}
    assert served_by == {"hello {'text': 'x'}"}
