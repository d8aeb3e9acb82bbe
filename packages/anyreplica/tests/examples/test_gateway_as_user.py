"""Tests of the gateway tool that reads an API in the name of the user."""

import asyncio
import json
from collections.abc import Iterator

import pytest

from conftest import Server
from tests.calls import legacy
from tests.downstream.exchange.authorization_server import own
from tests.downstream.exchange.conftest import Exchanging
from tests.downstream.exchange.replica import KEY, exchanging_replica
from tests.downstream.exchange.served import Reply
from tests.examples.upstream import Gateway


@pytest.fixture(scope="module")
def exchanging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Exchanging]]:
    """A replica with the pack, and an API with token exchange."""
    with exchanging_replica(tmp_path_factory.mktemp("gateway")) as found:
        yield found


def ask(server: Server, token: str, tool: str, url: str) -> str:
    """Return the text of the result or error."""
    params = {"name": tool, "arguments": {"url": url}}
    reply = legacy(server.url, "tools/call", params, Authorization=f"Bearer {token}")
    return str(reply.json()["result"]["content"][0]["text"])


def test_the_api_sees_the_user(exchanging: tuple[Server, Exchanging]) -> None:
    """Each user reads what the API shows to this user, but no token; a caller with a key reads nothing."""
    server, found = exchanging
    for user in ("ada", "bob", "ada"):
        for tool in ("call_external_api_as_user", "call_external_api"):
            assert json.loads(ask(server, own(user), tool, found.api.url)) == {"user": user}
    before = len(found.api.seen)
    assert "has no token that can be exchanged" in ask(server, KEY, "call_external_api_as_user", found.api.url)
    assert "url must begin with one of" in ask(server, own("ada"), "call_external_api_as_user", "http://127.0.0.1:1/")
    assert len(found.api.seen) == before
    found.api.instead = lambda: Reply(200, json.dumps({"authorization": found.api.authorizations[-1]}).encode())
    assert "a secret of this server" in ask(server, own("ada"), "call_external_api_as_user", found.api.url)


def test_an_api_without_exchange(gateway: Gateway) -> None:
    """The tool never reads an API without token exchange, because this call would be anonymous."""
    gateway.upstream.asked.clear()
    with pytest.raises(Exception, match="has no token exchange"):
        gateway.runner.run(asyncio.wait_for(gateway.module.call_external_api_as_user(f"{gateway.base}/me"), 5))
    assert gateway.upstream.asked == []
