"""A code, a refresh token and an assertion are valid once, on all replicas together."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import httpx
import pytest

from tests.auth.login.assertions import CimdClient, identity_assertion
from tests.auth.login.browser import Browser
from tests.auth.login.fleets import LoginFleet
from tests.auth.login.flow import OAuthClient, post
from tests.auth.login.test_flow import may_call

pytestmark = [pytest.mark.needs("node"), pytest.mark.needs("redis")]


def at_once(urls: list[str], send: Callable[[str], httpx.Response]) -> list[httpx.Response]:
    """Send a request to several replicas at the same moment."""
    barrier = Barrier(len(urls))

    def wait_and_send(url: str) -> httpx.Response:
        barrier.wait()
        return send(url)

    with ThreadPoolExecutor(len(urls)) as pool:
        return list(pool.map(wait_and_send, urls))


def test_a_used_code_is_refused_on_another_replica(login_fleet: LoginFleet, browser: Browser) -> None:
    """A code is valid once, also at the replica that issued it."""
    client = OAuthClient(login_fleet.url)
    client.register(login_fleet.url)
    code = client.code(login_fleet.url, browser)
    first, *others = login_fleet.urls
    assert client.exchange(first, code).status_code == 200
    for url in (*others, first):
        reply = client.exchange(url, code)
        assert (reply.status_code, reply.json()["error"]) == (401, "invalid_grant")


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
    """If many requests with one code arrive at the same moment, exactly one gets tokens."""
    client = OAuthClient(login_fleet.url)
    client.register(login_fleet.url)
    code = client.code(login_fleet.url, browser)
    replies = at_once(login_fleet.urls * 4, lambda url: client.exchange(url, code))
    assert sorted(reply.status_code for reply in replies) == [200, *[401] * 11]
    (granted,) = (reply.json() for reply in replies if reply.status_code == 200)
    assert may_call(login_fleet.url, granted["access_token"])


@pytest.mark.parametrize("attempt", range(3))
def test_only_one_of_many_replicas_accepts_a_refresh_token(login_fleet: LoginFleet, attempt: int) -> None:
    """If many requests with one refresh token arrive at the same moment, exactly one gets tokens, and they are valid.

    The identity provider ends the whole login if it gets the same refresh token twice.
    """
    client = OAuthClient(login_fleet.url)
    token = client.log_in(login_fleet.url)["refresh_token"]
    replies = at_once(login_fleet.urls * 4, lambda url: client.refresh(url, token))
    assert sorted(reply.status_code for reply in replies) == [200, *[401] * 11]
    (granted,) = (reply.json() for reply in replies if reply.status_code == 200)
    assert may_call(login_fleet.url, granted["access_token"])
    assert client.refresh(login_fleet.url, granted["refresh_token"]).status_code == 200


def test_a_client_with_a_document_logs_in(login_fleet: LoginFleet, browser: Browser) -> None:
    """A client whose id is a URL (CIMD) needs no registration. Each replica reads its document."""
    client = CimdClient(login_fleet)
    tokens = client.exchange(login_fleet.urls[2], client.code(login_fleet.urls[0], browser)).json()
    assert may_call(login_fleet.urls[1], tokens["access_token"])
    assert client.refresh(login_fleet.urls[0], tokens["refresh_token"]).status_code == 200


def test_a_used_client_assertion_is_refused_on_another_replica(login_fleet: LoginFleet, browser: Browser) -> None:
    """An assertion of a client (private_key_jwt) is valid for one request."""
    client = CimdClient(login_fleet, key=True)
    code = client.code(login_fleet.url, browser)
    used = client.assertion()
    tokens = client.exchange(login_fleet.urls[0], code, **used).json()
    assert may_call(login_fleet.url, tokens["access_token"])
    for url in login_fleet.urls:
        reply = client.refresh(url, tokens["refresh_token"], **used)
        assert (reply.status_code, reply.json()["error"]) == (401, "invalid_client"), reply.text
    assert client.refresh(login_fleet.urls[1], tokens["refresh_token"], **client.assertion()).status_code == 200


def test_only_one_of_many_replicas_accepts_a_client_assertion(login_fleet: LoginFleet, browser: Browser) -> None:
    """If many requests with one assertion arrive at the same moment, exactly one passes the check of the client."""
    client = CimdClient(login_fleet, key=True)
    tokens = client.exchange(login_fleet.url, client.code(login_fleet.url, browser), **client.assertion()).json()
    used = client.assertion()
    replies = at_once(login_fleet.urls * 2, lambda url: client.refresh(url, tokens["refresh_token"], **used))
    errors = sorted(reply.json().get("error", "") for reply in replies)
    assert errors == ["", *["invalid_client"] * 5]


def test_a_used_identity_assertion_is_refused_on_another_replica(login_fleet: LoginFleet) -> None:
    """An identity assertion (ID-JAG) is valid once."""
    client = OAuthClient(login_fleet.url)
    client.register(login_fleet.url)
    said = identity_assertion(login_fleet.issuer, client)
    granted = post(f"{login_fleet.urls[0]}/token", data=said)
    assert granted.status_code == 200, granted.text
    assert may_call(login_fleet.urls[1], granted.json()["access_token"])
    for url in login_fleet.urls:
        reply = post(f"{url}/token", data=said)
        assert (reply.status_code, reply.json()["error"]) == (401, "invalid_grant")


def test_only_one_of_many_replicas_accepts_an_identity_assertion(login_fleet: LoginFleet) -> None:
    """If many requests with one assertion arrive at the same moment, exactly one gets a token."""
    client = OAuthClient(login_fleet.url)
    client.register(login_fleet.url)
    said = identity_assertion(login_fleet.issuer, client)
    replies = at_once(login_fleet.urls * 4, lambda url: post(f"{url}/token", data=said))
    assert sorted(reply.status_code for reply in replies) == [200, *[401] * 11]


def test_a_revoked_token_of_an_assertion_is_refused_everywhere(login_fleet: LoginFleet) -> None:
    """The token of an identity assertion stands for itself, so the replicas share its revocation."""
    client = OAuthClient(login_fleet.url)
    client.register(login_fleet.url)
    token = post(f"{login_fleet.urls[0]}/token", data=identity_assertion(login_fleet.issuer, client)).json()[
        "access_token"
    ]
    assert all(may_call(url, token) for url in login_fleet.urls)
    assert client.revoke(login_fleet.urls[1], token).status_code == 200
    assert not any(may_call(url, token) for url in login_fleet.urls)
