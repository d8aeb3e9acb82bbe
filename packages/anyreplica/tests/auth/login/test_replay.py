"""A code, a refresh token and an assertion are valid once, on all replicas together."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import httpx
import pytest

from tests.auth.login.assertions import CimdClient, identity_assertion
from tests.auth.login.browser import Browser
from tests.auth.login.fleets import LoginFleet, logins
from tests.auth.login.flow import OAuthClient, post
from tests.auth.login.test_flow import may_call
from tests.calls import legacy

pytestmark = [pytest.mark.needs("node"), pytest.mark.needs("redis")]


def at_once(urls: list[str], send: Callable[[str], httpx.Response]) -> list[httpx.Response]:
    """Send a request to several replicas at the same moment."""
    barrier = Barrier(len(urls))

    def wait_and_send(url: str) -> httpx.Response:
        barrier.wait()
        return send(url)

    with ThreadPoolExecutor(len(urls)) as pool:
        return list(pool.map(wait_and_send, urls))


def only_one_of_many(fleet: LoginFleet, send: Callable[[str], httpx.Response]) -> dict[str, Any]:
    """Send a request to all replicas many times at the same moment. Exactly one gets tokens, and they are valid."""
    replies = at_once(fleet.urls * 4, send)
    assert sorted(reply.status_code for reply in replies) == [200, *[401] * 11]
    (granted,) = (reply.json() for reply in replies if reply.status_code == 200)
    assert may_call(fleet.url, granted["access_token"])
    return dict(granted)


def refused(fleet: LoginFleet, send: Callable[[str], httpx.Response], error: str = "invalid_grant") -> bool:
    """Return whether each replica refuses a request with this error."""
    replies = [send(url) for url in fleet.urls]
    return [(reply.status_code, reply.json()["error"]) for reply in replies] == [(401, error)] * 3


def test_a_wrong_verifier_does_not_use_up_a_code(login_fleet: LoginFleet, browser: Browser) -> None:
    """A stranger who has read a code can neither use it nor make it invalid."""
    client = OAuthClient(login_fleet.url)
    client.register(login_fleet.url)
    code = client.code(login_fleet.url, browser)
    stranger = OAuthClient(login_fleet.url, client.id)
    assert stranger.exchange(login_fleet.urls[0], code).json()["error"] == "invalid_grant"
    assert client.exchange(login_fleet.urls[1], code).status_code == 200


@pytest.mark.parametrize("attempt", range(3))
def test_only_one_of_many_replicas_accepts_a_code(login_fleet: LoginFleet, browser: Browser, attempt: int) -> None:
    """If many requests with one code arrive at the same moment, exactly one gets tokens. Later requests get none."""
    client = OAuthClient(login_fleet.url)
    client.register(login_fleet.url)
    code = client.code(login_fleet.url, browser)
    only_one_of_many(login_fleet, lambda url: client.exchange(url, code))
    assert refused(login_fleet, lambda url: client.exchange(url, code))


@pytest.mark.parametrize("attempt", range(3))
def test_only_one_of_many_replicas_accepts_a_refresh_token(login_fleet: LoginFleet, attempt: int) -> None:
    """If many requests with one refresh token arrive at the same moment, exactly one gets tokens, and they are valid.

    The identity provider ends the whole login if it gets the same refresh token twice.
    """
    client = OAuthClient(login_fleet.url)
    token = client.log_in(login_fleet.url)["refresh_token"]
    granted = only_one_of_many(login_fleet, lambda url: client.refresh(url, token))
    assert client.refresh(login_fleet.url, granted["refresh_token"]).status_code == 200


def test_only_one_of_many_replicas_accepts_a_client_assertion(login_fleet: LoginFleet, browser: Browser) -> None:
    """An assertion of a client (private_key_jwt) is valid for one request, also if many arrive at the same moment."""
    client = CimdClient(login_fleet, key=True)
    used = client.assertion()
    tokens = client.exchange(login_fleet.url, client.code(login_fleet.url, browser), **used).json()
    assert may_call(login_fleet.url, tokens["access_token"])
    assert refused(login_fleet, lambda url: client.refresh(url, tokens["refresh_token"], **used), "invalid_client")
    new = client.assertion()
    replies = at_once(login_fleet.urls * 2, lambda url: client.refresh(url, tokens["refresh_token"], **new))
    errors = sorted(reply.json().get("error", "") for reply in replies)
    assert errors == ["", *["invalid_client"] * 5]


def test_only_one_of_many_replicas_accepts_an_identity_assertion(login_fleet: LoginFleet) -> None:
    """If many requests with one assertion (ID-JAG) arrive at the same moment, one gets a token. Later ones get none."""
    client = OAuthClient(login_fleet.url)
    client.register(login_fleet.url)
    said = identity_assertion(login_fleet.issuer, client)
    only_one_of_many(login_fleet, lambda url: post(f"{url}/token", data=said))
    assert refused(login_fleet, lambda url: post(f"{url}/token", data=said))


def test_a_revoked_token_of_an_assertion_is_refused_everywhere(login_fleet: LoginFleet) -> None:
    """The token of an identity assertion stands for itself, so the replicas share its revocation."""
    client = OAuthClient(login_fleet.url)
    client.register(login_fleet.url)
    said = identity_assertion(login_fleet.issuer, client)
    token = post(f"{login_fleet.urls[0]}/token", data=said).json()["access_token"]
    assert all(may_call(url, token) for url in login_fleet.urls)
    assert client.revoke(login_fleet.urls[1], token).status_code == 200
    assert not any(may_call(url, token) for url in login_fleet.urls)


SECONDS = 3
"""Lifetime of an access token of the identity provider in the last test, in seconds."""


@pytest.mark.servers
@pytest.mark.slow
def test_only_one_replica_renews_a_token(tmp_path: Path) -> None:
    """Requests at all replicas find an expired token of the identity provider. One of them renews it.

    The identity provider ends the whole login if it gets the same refresh token twice.
    """
    with logins(tmp_path, 3, SECONDS, TOKEN_SECONDS="3600") as fleet:
        token = OAuthClient(fleet.url).log_in(fleet.url)["access_token"]
        for _ in range(3):
            time.sleep(SECONDS + 1)
            replies = at_once(fleet.urls * 4, lambda url: legacy(url, "ping", {}, Authorization=f"Bearer {token}"))
            assert [reply.status_code for reply in replies] == [200] * 12
