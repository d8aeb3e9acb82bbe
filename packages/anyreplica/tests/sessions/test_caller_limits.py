"""GET and DELETE of `/mcp` count for the limits of their caller, like POST."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from anyreplica.features.keys.key import KeyEntry, hash_of
from conftest import Server, StartServer, until
from tests.calls import BOTH, ENVELOPE, request
from tests.calls import VERSION as STATELESS
from tests.sessions.client import AskedClient, start
from tests.sessions.resuming import stream

SETTINGS = {"HANDSHAKE_SESSIONS": "full", "MCP_COMPONENTS": "tests.packs.state,tests.packs.scoped"}


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, str]:
    """The settings of a server with keys: `two` may run two calls at once, `slow` may send five requests per minute."""
    entries = [
        KeyEntry(id="two", hash=hash_of("two"), concurrent=2),
        KeyEntry(id="slow", hash=hash_of("slow"), rate="5/m", burst=5),
        KeyEntry(id="free", hash=hash_of("free")),
        KeyEntry(id="good", hash=hash_of("good"), scopes=("reports:read",)),
    ]
    file = tmp_path / "keys"
    file.write_text("\n".join(entry.model_dump_json(exclude_none=True) for entry in entries))
    return {**SETTINGS, "AUTH_ENABLED": "true", "API_KEYS_FILE": str(file)}


def begin(server: Server, key: str) -> AskedClient:
    """Start a session with a key."""
    return start(server.url, Authorization=f"Bearer {key}")


def opened(stack: contextlib.ExitStack, server: Server, client: AskedClient) -> httpx.Response:
    """Open the event stream of a session until the stack ends."""
    return stack.enter_context(stream(client, server.url))


def listening(stack: contextlib.ExitStack, server: Server, key: str) -> httpx.Response:
    """Send `subscriptions/listen` with a key, and keep the reply open until the stack ends."""
    method = "subscriptions/listen"
    sent = {"Accept": BOTH, "Authorization": f"Bearer {key}", "MCP-Protocol-Version": STATELESS, "Mcp-Method": method}
    body = request(method, {"notifications": {"toolsListChanged": True}, "_meta": ENVELOPE})
    http = stack.enter_context(httpx.Client(timeout=60))
    return stack.enter_context(http.stream("POST", f"{server.url}/mcp", json=body, headers=sent))


def streams(stack: contextlib.ExitStack, server: Server, key: str) -> Iterator[httpx.Response]:
    """Open event streams of both kinds with a key, without end."""
    while True:
        yield opened(stack, server, begin(server, key))
        yield listening(stack, server, key)


def checked(reply: httpx.Response, status: int, text: str) -> None:
    """Check an error."""
    assert reply.status_code == status
    assert text in reply.read().decode(), reply.text
    assert int(reply.headers["retry-after"]) >= 1


def recall(server: Server, client: AskedClient) -> httpx.Response:
    """Call a tool in a session."""
    asked = request("tools/call", {"name": "recall", "arguments": {}})
    return httpx.post(f"{server.url}/mcp", json=asked, headers=client.headed(), timeout=60)


def test_an_open_stream_is_a_call_that_runs(start_server: StartServer, keys: dict[str, str]) -> None:
    """A key with `concurrent=2` has at most two open streams or running calls. Another key has its own."""
    server = start_server(**keys)
    clients = [begin(server, "two") for _ in range(3)]
    with contextlib.ExitStack() as stack:
        with contextlib.ExitStack() as one:
            assert opened(one, server, clients[0]).status_code == 200
            assert opened(stack, server, clients[1]).status_code == 200
            checked(opened(stack, server, clients[2]), 429, "Too many calls in flight: the limit is 2")
            checked(recall(server, clients[2]), 429, "Too many calls in flight: the limit is 2")
            good = begin(server, "good")
            assert opened(stack, server, good).status_code == 200
            assert recall(server, good).status_code == 200
            ended = httpx.delete(f"{server.url}/mcp", headers=clients[2].headed())
            assert ended.status_code == 204, "a session ends also while its caller is at this limit"
        until(lambda: recall(server, clients[1]).status_code == 200, "the first stream has given its place back")


def test_requests_without_a_body_have_a_rate(start_server: StartServer, keys: dict[str, str]) -> None:
    """DELETE and GET take tokens from the bucket of their key, also with a session that does not exist."""
    server = start_server(**keys)
    unknown = {"Authorization": "Bearer slow", "Mcp-Session-Id": "unknown", "Accept": BOTH}
    with httpx.Client(timeout=60) as http:
        replies = [http.delete(f"{server.url}/mcp", headers=unknown) for _ in range(20)]
        assert [reply.status_code for reply in replies] == [404] * 5 + [429] * 15
        checked(replies[-1], 429, "Too many calls: the rate limit is 5/m")
        checked(http.get(f"{server.url}/mcp", headers=unknown), 429, "Too many calls: the rate limit is 5/m")
        ended = http.delete(f"{server.url}/mcp", headers=begin(server, "good").headed())
        assert ended.status_code == 204


@pytest.mark.parametrize("uri", ["report://year", "report://day/1"])
def test_a_caller_subscribes_to_what_it_may_see(start_server: StartServer, keys: dict[str, str], uri: str) -> None:
    """A key without the scope of a resource or a template gets the answer for a resource that does not exist."""
    server = start_server(**keys)

    def subscribe(key: str) -> Any:
        asked = request("resources/subscribe", {"uri": uri})
        return httpx.post(f"{server.url}/mcp", json=asked, headers=begin(server, key).headed()).json()

    assert subscribe("free")["error"] == {
        "code": -32602,
        "message": f"Resource not found: {uri!r}",
        "data": {"uri": uri},
    }
    assert subscribe("good")["result"] == {}


def test_one_caller_takes_half_of_the_streams(start_server: StartServer, keys: dict[str, str]) -> None:
    """A caller without a rate limit has at most half of MAX_SUBSCRIPTIONS. Another caller opens streams."""
    server = start_server(**keys, MAX_SUBSCRIPTIONS="7")
    with contextlib.ExitStack() as stack:
        taken = streams(stack, server, "free")
        assert [next(taken).status_code for _ in range(4)] == [200] * 4
        for _ in range(2):
            checked(next(taken), 503, "you have 4 subscriptions, the limit of one caller (half of MAX_SUBSCRIPTIONS)")
        others = streams(stack, server, "good")
        assert [next(others).status_code for _ in range(3)] == [200] * 3
        checked(next(streams(stack, server, "two")), 503, "7 subscriptions (MAX_SUBSCRIPTIONS)")

    def is_free() -> bool:
        with contextlib.ExitStack() as stack:
            return next(streams(stack, server, "free")).status_code == 200

    until(is_free, "the places are free again")
