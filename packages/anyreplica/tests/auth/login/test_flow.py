"""Each step of a login can happen on another replica."""

import itertools

import httpx
import pytest

from tests.auth.login.browser import Browser
from tests.auth.login.fleets import LoginFleet
from tests.auth.login.flow import SCOPES, OAuthClient
from tests.calls import legacy

pytestmark = [pytest.mark.needs("node"), pytest.mark.needs("redis")]


def may_call(url: str, token: str) -> bool:
    """Return whether a replica accepts a token."""
    reply = legacy(url, "tools/call", {"name": "read_report", "arguments": {}}, Authorization=f"Bearer {token}")
    assert reply.status_code in (200, 401), reply.text
    return reply.status_code == 200 and not reply.json()["result"]["isError"]


def test_a_challenge_says_where_the_login_is(login_fleet: LoginFleet) -> None:
    """The challenge names the metadata, which names the authorization server, which names its endpoints.

    The challenge of an invalid token also has an error, so that the client starts a new login.
    """
    resource = f"{login_fleet.url}/.well-known/oauth-protected-resource/mcp"
    invalid = legacy(login_fleet.url, "tools/list", Authorization="Bearer x")
    assert (invalid.status_code, 'error="invalid_token"' in invalid.headers["www-authenticate"]) == (401, True)
    assert f'resource_metadata="{resource}"' in invalid.headers["www-authenticate"]
    for url in login_fleet.urls:
        reply = legacy(url, "tools/list")
        assert reply.status_code == 401
        assert reply.headers["www-authenticate"] == f'Bearer scope="mcp", resource_metadata="{resource}"'
        described = httpx.get(resource.replace(login_fleet.url, url)).json()
        assert described["resource"] == f"{login_fleet.url}/mcp"
        assert described["authorization_servers"] == [f"{login_fleet.url}/"]
        server = httpx.get(f"{url}/.well-known/oauth-authorization-server").json()
        for name in ("authorization", "token", "registration", "revocation"):
            assert server[f"{name}_endpoint"].startswith(login_fleet.url)
        assert server["client_id_metadata_document_supported"] is True


def each_step(fleet: LoginFleet, browser: Browser) -> None:
    """Register, log in, exchange the code, call, refresh and revoke: each of these at the next replica."""
    turns = itertools.cycle(fleet.urls)
    client = OAuthClient(fleet.url)
    assert client.register(next(turns)).status_code == 201
    code = client.code(next(turns), browser)
    granted = client.exchange(next(turns), code)
    assert granted.status_code == 200, granted.text
    tokens = granted.json()
    assert tokens["scope"] == SCOPES
    assert all(may_call(next(turns), tokens["access_token"]) for _ in fleet.urls)
    renewed = client.refresh(next(turns), tokens["refresh_token"])
    assert renewed.status_code == 200, renewed.text
    new = renewed.json()
    assert all(may_call(next(turns), new["access_token"]) for _ in fleet.urls)
    for url in fleet.urls:
        assert client.exchange(url, code).json()["error"] == "invalid_grant", "a code is valid once"
        assert client.refresh(url, tokens["refresh_token"]).status_code == 401, "a refresh token is valid once"
    assert client.revoke(next(turns), new["refresh_token"]).status_code == 200
    for token in (tokens["access_token"], new["access_token"]):
        assert not any(may_call(next(turns), token) for _ in fleet.urls), "the revocation ends the whole login"
    assert client.refresh(next(turns), new["refresh_token"]).status_code == 401


def test_each_step_on_another_replica(login_fleet: LoginFleet, browser: Browser) -> None:
    """All steps of a login work at different replicas, also those of the browser."""
    each_step(login_fleet, browser)
    ours = [reply.headers["x-served-by"] for reply in browser.visited if "x-served-by" in reply.headers]
    assert len(ours) == 4, "authorize, the consent page, the consent and the callback"
    assert len(set(ours)) == 3, f"each step on the next replica: {ours}"


def test_a_revoked_access_token_is_refused_everywhere(login_fleet: LoginFleet) -> None:
    """A client without a secret can revoke its access token, and only its own."""
    turns = itertools.cycle(login_fleet.urls)
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
