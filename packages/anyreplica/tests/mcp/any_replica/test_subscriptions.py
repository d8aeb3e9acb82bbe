"""Tests of subscriptions: events of all replicas, and the end of subscriptions at a shutdown."""

import asyncio
import threading

import httpx
import pytest
from mcp import Client
from mcp.shared.subscriptions import ResourceUpdated, ToolsListChanged

from conftest import Server, StartServer, until
from tests.calls import call, modern, text
from tests.mcp.any_replica.listeners import ALL_LISTS, IN_SUBSCRIPTION, listening
from tests.replicas import BOTH, PACKS, Fleet, asking, messages, streaming


def offered(server: Server) -> dict[str, bool]:
    """Return the change notifications that `server/discover` announces."""
    said = modern(server.url, "server/discover").json()["result"]["capabilities"]
    lists = {kind: bool(said[kind].get("listChanged")) for kind in ("tools", "prompts", "resources")}
    return {**lists, "subscribe": bool(said["resources"].get("subscribe"))}


@pytest.mark.needs("redis")
def test_a_listener_receives_events_of_every_replica(fleet_with_redis: Fleet) -> None:
    """With Redis, a listener receives each event of every replica once.

    The listener receives no events that it did not ask for.
    """
    first, second, third = fleet_with_redis.replicas
    uris = ["orders://today", "orders://tomorrow"]
    with (
        listening(first, {"toolsListChanged": True}) as tools,
        listening(first, {"promptsListChanged": True}) as prompts,
        listening(second, {"resourceSubscriptions": uris}) as resources,
        listening(third, ALL_LISTS) as lists,
    ):
        call(second.url, "test_trigger_prompt_change")
        call(third.url, "touch", {"uri": "orders://yesterday"})
        call(third.url, "touch", {"uri": "orders://tomorrow"})
        call(first.url, "test_trigger_tool_change")
        assert next(tools)["method"] == "notifications/tools/list_changed"
        assert next(prompts)["method"] == "notifications/prompts/list_changed"
        updated = next(resources)
        assert updated["method"] == "notifications/resources/updated"
        assert updated["params"]["uri"] == "orders://tomorrow"
        assert updated["params"]["_meta"][IN_SUBSCRIPTION] == 1
        heard = [next(lists)["method"] for _ in range(2)]
        assert heard == ["notifications/prompts/list_changed", "notifications/tools/list_changed"]
    assert all(all(offered(replica).values()) for replica in fleet_with_redis.replicas)


@pytest.mark.needs("redis")
def test_the_sdks_client_subscribes_through_the_proxy(fleet_with_redis: Fleet) -> None:
    """The SDK's client receives events from its own calls, although the proxy sends the calls to different replicas."""

    async def listen() -> None:
        async with (
            Client(f"{fleet_with_redis.url}/mcp", mode="auto", cache=None) as client,
            client.listen(tools_list_changed=True, resource_subscriptions=["orders://today"]) as changes,
        ):
            for _ in range(3):
                await client.call_tool("test_trigger_tool_change")
                assert await anext(changes) == ToolsListChanged()
                await client.call_tool("touch", {"uri": "orders://today"})
                assert await anext(changes) == ResourceUpdated(uri="orders://today")

    asyncio.run(asyncio.wait_for(listen(), 30))


def test_several_replicas_without_redis_offer_no_subscriptions(fleet: Fleet) -> None:
    """Several replicas without Redis offer no subscriptions.

    A listener would miss the events of the other replicas without any notice.
    """
    for replica in fleet.replicas:
        assert not any(offered(replica).values())
        with streaming(replica.url, asking("stateless", "subscriptions/listen", {"notifications": ALL_LISTS})) as (
            reply,
            _,
        ):
            assert reply.status_code == 404
            assert httpx.Response(404, content=reply.read()).json()["error"]["code"] == -32601
    assert text(call(fleet.url, "test_trigger_tool_change")) == "Told."


def test_a_single_replica_needs_no_redis(alone: dict[str, Server]) -> None:
    """A single replica offers subscriptions without Redis.

    It refuses a subscription with 406 if the client does not accept event streams.
    """
    server = alone["auto"]
    assert all(offered(server).values())
    with listening(server, ALL_LISTS) as one, listening(server, {"resourceSubscriptions": ["a://b"]}) as other:
        call(server.url, "test_trigger_tool_change")
        call(server.url, "touch", {"uri": "a://b"})
        assert next(one)["method"] == "notifications/tools/list_changed"
        assert next(other)["params"]["uri"] == "a://b"
    reply = modern(server.url, "subscriptions/listen", {"notifications": ALL_LISTS})
    assert reply.status_code == 406
    assert reply.json()["id"] == 1


@pytest.mark.parametrize("mode", ["auto", "true", "false"])
def test_listeners_do_not_hold_up_a_shutdown(start_server: StartServer, mode: str) -> None:
    """A stopping replica ends each subscription with a result.

    Otherwise the stop would take the full grace period of 25 s.
    """
    server = start_server(MCP_COMPONENTS=PACKS, JSON_RESPONSE=mode)
    with listening(server, ALL_LISTS) as one, listening(server, ALL_LISTS) as other:
        assert server.stop(seconds=8) == 0
        for events in (one, other):
            (last,) = events
            assert last["id"] == 1
            assert last["result"]["_meta"][IN_SUBSCRIPTION] == 1


def test_a_returning_listener_does_not_delay_a_shutdown(start_server: StartServer) -> None:
    """A listener that subscribes again on the same connection does not delay the shutdown of a replica."""
    server = start_server(MCP_COMPONENTS=PACKS)
    stopping = threading.Event()
    again: list[int] = []

    def listen() -> None:
        asked = asking("stateless", "subscriptions/listen", {"notifications": ALL_LISTS})
        headers = {**asked["headers"], "Accept": BOTH}
        with httpx.Client(verify=False, timeout=60) as client:
            while True:
                try:
                    with client.stream("POST", f"{server.url}/mcp", json=asked["json"], headers=headers) as reply:
                        again.append(reply.status_code)
                        for _ in messages(reply):
                            pass
                except httpx.HTTPError:
                    if stopping.is_set():
                        return

    listeners = [threading.Thread(target=listen) for _ in range(4)]
    for listener in listeners:
        listener.start()
    until(lambda: len(again) == len(listeners), "all listeners have subscribed again")
    stopping.set()
    try:
        assert server.stop(seconds=8) == 0
    finally:
        for listener in listeners:
            listener.join()
