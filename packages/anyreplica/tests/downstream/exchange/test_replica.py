"""A replica that calls an API in the name of its callers."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from anyreplica import Settings
from anyreplica.auth import caller
from conftest import ROOT, Server
from tests.calls import FULL, legacy, text
from tests.downstream.exchange.authorization_server import SECRET, own
from tests.downstream.exchange.conftest import Exchanging
from tests.downstream.exchange.replica import KEY, exchanging_replica
from tests.downstream.exchange.served import Reply
from tests.metrics.page import Scrape
from tests.starts import start


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Exchanging]]:
    """A replica that exchanges the tokens of its callers, and an API."""
    with exchanging_replica(tmp_path_factory.mktemp("exchange")) as found:
        yield found


def call(server: Server, token: str, tool: str, url: str, meta: Any = None) -> str:
    """Return the text of a tool's result or error."""
    params = {"name": tool, "arguments": {"url": url}, **({"_meta": meta} if meta else {})}
    reply = legacy(server.url, "tools/call", params, Authorization=f"Bearer {token}")
    return text(reply.json()["result"])


def test_each_caller_is_seen_by_the_api(secured: tuple[Server, Exchanging]) -> None:
    """On the fast path and on the FastMCP path, the API sees the user of each call, and no token of another user."""
    server, exchanging = secured
    users = {f"user{number}": own(f"user{number}") for number in range(8)}

    def ask(number: int) -> tuple[str, str]:
        user = f"user{number % 8}"
        return user, call(server, users[user], "who", exchanging.api.url, FULL if number % 3 else None)

    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(ask, range(64)))
    assert all(user == seen for user, seen in results)
    assert exchanging.tokens.asked == 8
    assert exchanging.tokens.refused == []
    page = Scrape(server.url, Authorization=f"Bearer {KEY}")
    assert page.value("mcp_downstream_exchanges_total", host=exchanging.api.host, outcome="ok") == 8
    assert page.value("mcp_downstream_tokens") == 8
    assert page.value("mcp_downstream_requests_total", host=exchanging.tokens.host, outcome="ok") == 8


@pytest.mark.parametrize(("user", "tool"), [("", "who"), ("", "who_later"), ("ada", "who_later")])
def test_a_key_and_a_job_have_no_token(secured: tuple[Server, Exchanging], user: str, tool: str) -> None:
    """A caller with a key, and every job, get an error, and the API gets no request."""
    server, exchanging = secured
    before = len(exchanging.api.seen)
    token = own(user) if user else KEY  # made here, because a token made at the collection of the tests may expire
    said = call(server, token, tool, exchanging.api.url)
    assert f"{exchanging.api.host} was not called: the caller has no token that can be exchanged" in said
    assert len(exchanging.api.seen) == before


def test_nothing_secret_is_in_the_log(secured: tuple[Server, Exchanging]) -> None:
    """At the lowest log level, the log has neither a token nor the client's secret."""
    server, exchanging = secured
    token = own("eve")
    assert call(server, token, "who", exchanging.api.url) == "eve"
    exchanging.tokens.instead = lambda: Reply(400, b'{"error": "invalid_grant"}')
    refused = own("mallory")
    assert "answered 400 Bad Request (invalid_grant)" in call(server, refused, "who", exchanging.api.url)
    exchanging.tokens.instead = None
    for secret in (*token.split("."), *refused.split("."), SECRET, "api-eve"):
        assert secret not in server.output


@pytest.mark.parametrize("command", [("check",), ("check", "--worker"), ()])
def test_a_wrong_file_stops_the_start(tmp_path: Path, command: tuple[str, ...]) -> None:
    """A replica, a worker and `check` refuse a wrong file with one line and exit code 3."""
    path = tmp_path / "tokens.toml"
    path.write_text('["api.example.com"]\ntoken_url = "http://login.example.com"\n')
    settings = {"DOWNSTREAM_TOKENS_FILE": str(path), "AUTH_ENABLED": "true", "AUTH_TOKEN": KEY}
    if "--worker" in command:
        settings["JOBS_URL"] = "redis://127.0.0.1:1"
    done = start(*command, **settings)
    assert done.returncode == 3
    line = f"DOWNSTREAM_TOKENS_FILE: {path}, api.example.com, token_url: must be a URL like"
    assert done.stderr.startswith(line), done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_exchange_without_authentication() -> None:
    """The start warns if no caller can have a token."""
    path = ROOT / "tokens.toml"
    (found,) = Settings.model_construct(downstream_tokens_file=path).doubts()
    assert found.startswith("DOWNSTREAM_TOKENS_FILE: set, but AUTH_ENABLED is false")


def test_no_caller_outside_a_request() -> None:
    """Outside of a request there is no caller, and so no token."""
    assert caller.caller_token() is None
