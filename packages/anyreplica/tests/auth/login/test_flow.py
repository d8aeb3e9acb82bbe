"""Each step of a login can happen on another replica."""

import itertools
from collections.abc import Iterator

import httpx
import pytest

from tests.auth.login.browser import Browser
from tests.auth.login.fleets import LoginFleet
from tests.auth.login.flow import SCOPES, OAuthClient, post
from tests.calls import HEADERS, legacy, request

pytestmark = [pytest.mark.needs("node"), pytest.mark.needs("redis")]


def may_call(url: str, token: str) -> bool:
    """Return whether a replica accepts a token."""
    reply = legacy(url, "tools/call", {"name": "read_report", "arguments": {}}, Authorization=f"Bearer {token}")
    assert reply.status_code in (200, 401), reply.text
    return reply.status_code == 200 and not reply.json()["result"]["isError"]


@pytest.fixture
def turns(login_fleet: LoginFleet) -> Iterator[str]:
    """The URLs of the replicas in turn."""
    return itertools.cycle(login_fleet.urls)


def test_a_request_without_a_token_says_where_the_login_is(login_fleet: LoginFleet) -> None:
    """The challenge names the metadata, which names the authorization server, which names its endpoints."""
    for url in login_fleet.urls:
        reply = post(f"{url}/mcp", json=request("tools/list"), headers=HEADERS)
        assert reply.status_code == 401
        resource = f"{login_fleet.url}/.well-known/oauth-protected-resource/mcp"
        assert reply.headers["www-authenticate"] == (f'Bearer scope="mcp", resource_metadata="{resource}"')
        described = httpx.get(resource.replace(login_fleet.url, url)).json()
        assert described["resource"] == f"{login_fleet.url}/mcp"
        assert described["authorization_servers"] == [f"{login_fleet.url}/"]
        server = httpx.get(f"{url}/.well-known/oauth-authorization-server").json()
        for name in ("authorization", "token", "registration", "revocation"):
            assert server[f"{name}_endpoint"].startswith(login_fleet.url)
        assert server["client_id_metadata_document_supported"] is True


def test_an_invalid_token_gets_a_challenge(login_fleet: LoginFleet) -> None:
    """The challenge of an invalid token has an error, so that the client starts a new login."""
    reply = post(f"{login_fleet.url}/mcp", json=request("tools/list"), headers={**HEADERS, "Authorization": "Bearer x"})
    assert reply.status_code == 401
    assert 'error="invalid_token"' in reply.headers["www-authenticate"]
    assert "resource_metadata=" in reply.headers["www-authenticate"]


def test_each_step_on_another_replica(login_fleet: LoginFleet, turns: Iterator[str], browser: Browser) -> None:
    """Registration, authorization, consent, callback, token, call, refresh and revocation: each on the next replica."""
    client = OAuthClient(login_fleet.url)
    assert client.register(next(turns)).status_code == 201
    code = client.code(next(turns), browser)
    ours = [reply.headers["x-served-by"] for reply in browser.visited if "x-served-by" in reply.headers]
    assert len(ours) == 4, "authorize, the consent page, the consent and the callback"
    assert len(set(ours)) == 3, f"each step on the next replica: {ours}"
    granted = client.exchange(next(turns), code)
    assert granted.status_code == 200, granted.text
    tokens = granted.json()
    assert tokens["scope"] == SCOPES
    for _ in login_fleet.urls:
        assert may_call(next(turns), tokens["access_token"])
    renewed = client.refresh(next(turns), tokens["refresh_token"])
    assert renewed.status_code == 200, renewed.text
    for _ in login_fleet.urls:
        assert may_call(next(turns), renewed.json()["access_token"])
    assert client.revoke(next(turns), renewed.json()["refresh_token"]).status_code == 200
    for token in (tokens["access_token"], renewed.json()["access_token"]):
        for _ in login_fleet.urls:
            assert not may_call(next(turns), token), "the revocation of a refresh token ends the whole login"
    assert client.refresh(next(turns), renewed.json()["refresh_token"]).status_code == 401


def test_a_revoked_access_token_is_refused_everywhere(login_fleet: LoginFleet, turns: Iterator[str]) -> None:
    """A client without a secret can revoke its access token, and only its own."""
    client, other = OAuthClient(login_fleet.url), OAuthClient(login_fleet.url)
    token = client.log_in(login_fleet.url)["access_token"]
    assert other.register(next(turns)).status_code == 201
    assert other.revoke(next(turns), token).status_code == 200
    assert may_call(next(turns), token), "another client cannot revoke the token"
    assert client.revoke(next(turns), "no-token").status_code == 200
    assert OAuthClient(login_fleet.url, "unknown").revoke(next(turns), token).status_code == 401
    assert client.revoke(next(turns), token).status_code == 200
    for _ in login_fleet.urls:
        assert not may_call(next(turns), token)
