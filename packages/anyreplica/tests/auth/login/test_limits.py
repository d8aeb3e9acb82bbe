"""Anybody can send login requests, so their size, number and rate have limits."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import httpx
import pytest
from fastmcp import FastMCP
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider
from mcp.server.auth.settings import ClientRegistrationOptions
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from anyreplica import App, Settings, create_app
from anyreplica.features.login.limits import Attempts
from anyreplica.http.responses import Refused
from anyreplica.settings.rate import parse
from anyreplica.testing import Client, replica
from tests.auth.login.fleets import LoginFleet, logins
from tests.auth.login.flow import REDIRECT, OAuthClient, post


def app() -> App:
    """Return the app of a server whose login stores everything in memory."""
    registration = ClientRegistrationOptions(enabled=True)
    auth = InMemoryOAuthProvider(base_url="http://localhost", client_registration_options=registration)
    return create_app(FastMCP("login", auth=auth), Settings.load())


@pytest.fixture
def client() -> Iterator[Client]:
    """A client of one replica with a low limit."""
    with replica(app, LOGIN_RATE_LIMIT="50/h", AUTO_DISCOVER="false") as client:
        yield client


def register(client: Client, **more: Any) -> Any:
    """Register a client."""
    return client.http.post("/register", json={"redirect_uris": [REDIRECT], **more})


def test_registrations_have_a_rate_limit(client: Client) -> None:
    """A registration counts as ten requests. Metadata stays readable beyond the limit."""
    assert [register(client).status_code for _ in range(6)] == [201] * 5 + [429]
    refused = client.http.post("/token", data={"grant_type": "refresh_token"})
    assert refused.status_code == 429
    assert 0 < int(refused.headers["retry-after"]) <= 3600
    assert refused.json()["error"] == "temporarily_unavailable"
    assert "LOGIN_RATE_LIMIT" in refused.json()["error_description"]
    assert client.http.get("/.well-known/oauth-authorization-server").status_code == 200


def test_the_limits_hold_below_a_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registration counts as ten requests, also if the app is mounted in another app."""
    monkeypatch.setenv("LOGIN_RATE_LIMIT", "50/h")
    monkeypatch.setenv("AUTO_DISCOVER", "false")
    made = app()
    outer = Starlette(routes=[Mount("/api", made)], lifespan=made.lifespan)
    with TestClient(outer, base_url="http://localhost") as http:
        sent = [http.post("/api/register", json={"redirect_uris": [REDIRECT]}) for _ in range(6)]
    assert [reply.status_code for reply in sent] == [201] * 5 + [429]


@pytest.mark.parametrize("path", ["/register", "/token"])
def test_large_bodies_are_refused(client: Client, path: str) -> None:
    """A body of more than 64 KB gets HTTP 413, also without a declared length."""
    body = json.dumps({"redirect_uris": [REDIRECT], "client_name": "x" * 70_000}).encode()
    for content in (body, iter([body[:1000], body[1000:]])):
        reply = client.http.post(path, content=content, headers={"Content-Type": "application/json"})
        assert reply.status_code == 413
        assert reply.json()["error"] == "invalid_request"


PATHS = ["/register", "/token", "/authorize", "/consent", "/revoke", "/auth/callback"]
FORM = "application/x-www-form-urlencoded"
KINDS = ["application/json", FORM, "multipart/form-data", "multipart/form-data; boundary=b"]
BODIES = [b"", b"{", b"[]", b"null", b"\xff\xfe", b"a=b&a=b", b'{"redirect_uris": [1]}', b"grant_type=%ff&code=%00"]
BODIES += [b"--b\r\n", b"grant_type=authorization_code&client_id=" + b"x" * 20_000, b"&".join([b"a=b"] * 2000)]
GRANTS = [b"authorization_code", b"refresh_token", b"urn:ietf:params:oauth:grant-type:jwt-bearer"]
BODIES += [b"client_id=anyreplica&code=x&assertion=x.y&refresh_token=x&grant_type=" + grant for grant in GRANTS]
ASSERTION = b"client_assertion_type=urn:ietf:params:oauth:client-assertion-type:jwt-bearer&client_assertion="
BODIES += [ASSERTION + wrong for wrong in (b"", b"x", b"x.y.z", b"e30.e30.e30", b"..", b"e30.W10.x")]


@pytest.mark.needs("node")
@pytest.mark.needs("redis")
@pytest.mark.parametrize("path", PATHS)
def test_bad_requests_get_clear_errors(login_fleet: LoginFleet, path: str) -> None:
    """No body and no query causes an error of the server."""
    url = f"{login_fleet.urls[0]}{path}"
    with httpx.Client(verify=False) as http:
        replies = [http.post(url, content=body, headers={"Content-Type": kind}) for kind in KINDS for body in BODIES]
        for body in BODIES:
            text = body.decode("latin-1")[:4000]
            fields = urlencode(dict.fromkeys(("state", "txn_id", "code", "client_id"), text))
            replies += [http.get(f"{url}?{query}") for query in (quote(text, safe="%=&"), fields)]
        replies += [http.request(method, url) for method in ("PUT", "DELETE", "HEAD", "OPTIONS")]
    for reply in replies:
        assert reply.status_code < 500, (reply.request.method, reply.request.content, reply.text)
        assert "Traceback" not in reply.text


def test_only_forms_have_a_limit_of_fields(client: Client) -> None:
    """A form of OAuth (RFC 6749) has a limited number of fields. Their separator may be in URLs of a registration."""
    reply = client.http.post("/token", content=b"&".join([b"a=b"] * 2000), headers={"Content-Type": FORM})
    assert (reply.status_code, "fields" in reply.json()["error_description"]) == (413, True)
    assert register(client, client_uri=f"https://example.com/?{'a=b&' * 500}").status_code == 201
    reply = client.http.post("/token", files={"grant_type": b"refresh_token"})
    assert (reply.status_code, reply.json()["error"]) == (415, "invalid_request"), "a multipart form is refused"


def test_a_registration_is_small(client: Client) -> None:
    """A client whose metadata has more than 4 KB is refused with an error of OAuth, and a smaller one is accepted."""
    refused = register(client, client_name="x" * 4100)
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_client_metadata")
    assert "the limit is 4096" in refused.json()["error_description"]
    assert register(client, client_name="x" * 3000).status_code == 201


@pytest.mark.anyio
async def test_addresses_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica without Redis counts a limited number of addresses, and each of them by itself."""
    monkeypatch.setattr("anyreplica.features.login.limits._MOST", 10)
    attempts = Attempts(parse("5/d"), None)
    for number in range(10):
        for _ in range(5):
            await attempts.count(str(number), 1)
    with pytest.raises(Refused):
        await attempts.count("3", 1)
    for number in range(5):
        await attempts.count(f"new {number}", 1)
    with pytest.raises(Refused):
        await attempts.count("one more", 1)
    assert len(attempts._counter._sums) <= 11


@pytest.mark.servers
@pytest.mark.needs("node")
@pytest.mark.needs("redis")
def test_the_replicas_share_the_limit(tmp_path: Path) -> None:
    """With Redis, the limit of an address holds for all replicas together."""
    with logins(tmp_path, LOGIN_RATE_LIMIT="60/d") as fleet:
        with ThreadPoolExecutor(4) as pool:
            replies = list(pool.map(lambda _: OAuthClient(fleet.url).register(fleet.url), range(12)))
        assert sorted(reply.status_code for reply in replies) == [201] * 6 + [429] * 6
        assert post(f"{fleet.urls[1]}/token", data={}).status_code == 429
