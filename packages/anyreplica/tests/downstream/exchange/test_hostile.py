"""A token endpoint that fails, is slow, or sends nonsense: the call is not sent, and the error names the host."""

import asyncio
import json
import logging
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyreplica.downstream import NoToken, Unusable
from anyreplica.features.downstream.exchange.caller_tokens import ExchangedToken, error_code, exchanged_token
from anyreplica.features.downstream.exchange.entry import read
from conftest import free_port
from tests.downstream.exchange.authorization_server import CLIENT, SECRET, own
from tests.downstream.exchange.conftest import Exchanging
from tests.downstream.exchange.served import Reply

pytestmark = pytest.mark.anyio


def endless() -> Iterator[bytes]:
    """Return a body that never ends, one byte at a time."""
    while True:
        yield b" "
        time.sleep(0.02)


def said(**fields: Any) -> Reply:
    """Return a response with a token, with these changes."""
    return Reply(200, json.dumps({"access_token": "private", "token_type": "Bearer", **fields}).encode())


UNUSABLE = ["private\r\nX-Admin: 1", "private\x00", "private token", "privaté", "private" * 3000, "", ["private"]]


@pytest.mark.parametrize(
    ("reply", "why", "outcome"),
    [
        (Reply(200, b" " * 70_000), "The response of {} is larger than 65536 bytes", "error"),
        (Reply(400, b" " * 70_000), "The response of {} is larger than 65536 bytes", "error"),
        (Reply(200, b"<html>private"), "{} sent no JSON object", "error"),
        (Reply(200, b'["private"]'), "{} sent no JSON object", "error"),
        (Reply(200, b"[" * 50_000), "{} sent no JSON object", "error"),
        (Reply(200, b'{"access_token": "private", "token_type": "Bearer", "expires_in": NaN}'), "no JSON", "error"),
        (Reply(200, b"\x1f\x8b", {"Content-Encoding": "gzip"}), "{} sent a compressed response", "error"),
        *((said(token_type=kind), "{} sent no token of the type Bearer", "error") for kind in ("DPoP", "N_A", None)),
        *((said(access_token=each), "{} sent no token that a header can carry", "error") for each in UNUSABLE),
        (Reply(400, b'{"error": "invalid_grant"}'), "{} answered 400 Bad Request (invalid_grant)", "refused"),
        (Reply(400, b'{"error": "interaction_required"}'), "400 Bad Request (interaction_required)", "refused"),
        (Reply(401, b'{"error": "invalid_client"}'), "{} answered 401 Unauthorized (invalid_client)", "refused"),
        (Reply(400, b'{"error": "private\\r\\n"}'), "{} answered 400 Bad Request", "refused"),
        (Reply(400, b'{"error": ["private"]}'), "{} answered 400 Bad Request", "refused"),
        (Reply(400, b"private"), "{} answered 400 Bad Request", "refused"),
        (Reply(500, b'{"error": "private"}'), "{} answered 500 Internal Server Error", "error"),
        (Reply(200, endless()), "{} did not answer within 0.5 s", "error"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_no_usable_token(
    exchanging: Exchanging, caplog: pytest.LogCaptureFixture, reply: Reply, why: str, outcome: str
) -> None:
    """The error has the host and the status, and an error code only if it is a known one. The API gets no request."""
    caplog.set_level(logging.DEBUG)
    exchanging.user = own("ada")
    seconds = 0.5 if "did not answer" in why else 30
    exchanging.settings = {"downstream_timeout_seconds": seconds, "downstream_retries": 0}
    exchanging.tokens.instead = lambda: reply
    with pytest.raises(NoToken) as error:
        asyncio.run(exchanging.get())  # the exchange has ended, too, when the event loop has ended
    text = str(error.value)
    assert text.startswith(f"No token for {exchanging.api.host}: ")
    assert why.format(exchanging.tokens.host) in text
    assert exchanging.api.seen == []
    assert exchanging.caller_tokens.outcomes == {(exchanging.api.host, outcome): 1}
    for secret in ("private", SECRET, *exchanging.user.split(".")):
        assert secret not in text + caplog.text


async def test_an_own_token_that_comes_back(exchanging: Exchanging) -> None:
    """If the endpoint returns the caller's own token, the API does not get it."""
    exchanging.tokens.says = {"access_token": exchanging.user}
    with pytest.raises(NoToken, match="sent the caller's own token"):
        await exchanging.get()
    assert exchanging.api.seen == []


async def test_retries_and_the_circuit_breaker(exchanging: Exchanging) -> None:
    """The calls of the endpoint have the retries and the circuit breaker of every call."""
    tokens = exchanging.tokens

    def flaky() -> Reply:
        tokens.instead = flaky if tokens.asked == 1 else None
        return Reply(503)

    tokens.instead = flaky
    assert await exchanging.get() == {"user": "ada"}
    assert tokens.asked == 3
    tokens.instead = lambda: Reply(500)
    exchanging.settings = {"downstream_breaker_failures": 2}
    async with exchanging.opened():
        for why in ("answered 500", "answered 500", f"Circuit open for {tokens.host} after 2 failures"):
            with pytest.raises(NoToken, match=f"No token for {exchanging.api.host}: .*{why}"):
                await exchanging.client.get(exchanging.api.url)
    assert exchanging.hosts.known[exchanging.api.host].breaker.state == "closed"


async def test_an_endpoint_that_is_not_there(exchanging: Exchanging) -> None:
    """The error names an endpoint that cannot be reached."""
    nowhere = f"127.0.0.1:{free_port()}"
    exchanging.fields = {"token_url": f'"http://{nowhere}/token"'}
    with pytest.raises(NoToken, match=f"No token for {exchanging.api.host}: {nowhere} can't be reached"):
        await exchanging.get()


async def test_the_time_of_a_call_includes_the_exchange(exchanging: Exchanging) -> None:
    """A call waits for its exchange no longer than its own time limit. Its exchange goes on for later calls."""
    answers = threading.Event()

    def slow() -> Reply:
        assert answers.wait(10)
        exchanging.tokens.owners["slow"] = "ada"
        return said(access_token="slow")

    exchanging.tokens.instead = slow
    async with exchanging.opened():
        with pytest.raises(NoToken, match=f"{exchanging.tokens.host} did not answer within 0.2 s"):
            await exchanging.client.get(exchanging.api.url, timeout=0.2)
        answers.set()
        assert (await exchanging.client.get(exchanging.api.url)).json() == {"user": "ada"}
    assert exchanging.tokens.asked == 1


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={"access_token": JSON, "token_type": JSON | st.just("bearer"), "expires_in": JSON, "error": JSON},
)


@given(st.binary(max_size=60) | FIELDS.map(lambda fields: json.dumps(fields).encode()))
def test_no_response_breaks_the_client(content: bytes) -> None:
    """Any response is either a token that a header can carry, or an error. The error shows none of its content."""
    reply = httpx2.Response(200, content=content)
    code = error_code(reply)
    assert not code or code.isidentifier()
    try:
        token = exchanged_token(reply, "login.example.com", "own")
    except Unusable as error:
        told = str(error)
    else:
        assert re.fullmatch(r"[\x21-\x7e]+", token.text)
        return
    assert told.startswith("login.example.com sent no ")


def test_nothing_secret_is_shown(exchanging: Exchanging) -> None:
    """No representation of an object shows a token or a secret."""
    (exchange,) = read(exchanging.file()).values()
    assert CLIENT in repr(exchange)
    assert SECRET not in repr(exchange)
    assert "private" not in repr(ExchangedToken("private", 1))
