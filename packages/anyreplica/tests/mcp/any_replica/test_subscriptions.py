"""Tests of subscriptions: events of all replicas, and the end of subscriptions at a shutdown."""

import threading

import httpx
import pytest

from conftest import Server, StartServer, until
from tests.calls import call, modern, text
from tests.mcp.any_replica.listeners import ALL_LISTS, IN_SUBSCRIPTION, listening
from tests.replicas import BOTH, PACKS, Fleet, asking, messages


def offered(server: Server) -> dict[str, bool]:
    """Return the change notifications that `server/discover` announces."""
    said = modern(server.url, "server/discover").json()["result"]["capabilities"]
    lists = {kind: bool(said[kind].get("listChanged")) for kind in ("tools", "prompts", "resources")}
    return {**lists, "subscribe": bool(said["resources"].get("subscribe"))}


@pytest.mark.needs("redis")
def test_a_listener_receives_events_of_every_replica(fleet_with_redis: Fleet) -> None:
    """With Redis, a listener receives each event of every replica once, and no events that it did not ask for."""
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


def test_several_replicas_without_redis_offer_no_subscriptions(fleet: Fleet) -> None:
    """Several replicas without Redis offer no subscriptions: a listener would miss the events of other replicas."""
    for replica in fleet.replicas:
        assert not any(offered(replica).values())
        reply = modern(replica.url, "subscriptions/listen", {"notifications": ALL_LISTS}, Accept=BOTH)
        assert (reply.status_code, reply.json()["error"]["code"]) == (404, -32601)
    assert text(call(fleet.url, "test_trigger_tool_change")) == "Told."


def test_a_single_replica_needs_no_redis(alone: dict[str, Server]) -> None:
    """A single replica offers subscriptions without Redis. A client that accepts no event streams gets 406."""
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
    """A stopping replica ends each subscription with a result. The stop does not wait for the grace period."""
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
        asked["headers"] |= {"Accept": BOTH}
        with httpx.Client(verify=False, timeout=60) as client:
            while True:
                try:
                    with client.stream("POST", f"{server.url}/mcp", **asked) as reply:
                        again.append(reply.status_code)
                        list(messages(reply))
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
