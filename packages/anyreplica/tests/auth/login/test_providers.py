"""Each kind of FastMCP's auth providers, with an identity provider: each step can happen on another replica."""

import asyncio
from collections.abc import Iterator

import httpx
import pytest

from tests.auth.login.browser import Browser
from tests.auth.login.fleets import LoginFleet, logins
from tests.auth.login.flow import REDIRECT, SCOPES, OAuthClient
from tests.auth.login.test_flow import each_step, may_call
from tests.auth.login.test_official_clients import Login
from tests.calls import legacy

pytestmark = [pytest.mark.needs("node"), pytest.mark.needs("redis")]

TOKENS = {"oauth": "jwt", "oauth-introspection": "opaque", "remote-idp": "jwt", "verifier-idp": "jwt"}
"""The format of the identity provider's tokens for each kind of provider (`AUTH` of server.py)."""


@pytest.fixture(scope="module")
def fleet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginFleet]:
    """Three replicas with a kind of provider."""
    kind = request.param
    with logins(tmp_path_factory.mktemp(kind), tokens=TOKENS[kind], AUTH=kind) as fleet:
        yield fleet


@pytest.mark.parametrize("fleet", ["oauth", "oauth-introspection"], indirect=True, scope="module")
def test_each_step_at_a_proxy_of_the_login(fleet: LoginFleet, browser: Browser) -> None:
    """The replicas forward the login and issue tokens of their own. Each step is on the next replica."""
    each_step(fleet, browser)


@pytest.mark.parametrize("fleet", ["remote-idp"], indirect=True, scope="module")
def test_a_client_logs_in_at_the_identity_provider_itself(fleet: LoginFleet, browser: Browser) -> None:
    """The replicas only name the identity provider. The SDK's client registers and logs in there."""
    login = Login(fleet.url, browser)
    asyncio.run(login.call(len(fleet.urls)))
    assert login.logins == 1
    assert {"replica-1", "replica-2", "replica-3"} <= login.served


@pytest.mark.parametrize("fleet", ["verifier-idp"], indirect=True, scope="module")
def test_each_replica_verifies_a_token_of_the_identity_provider(fleet: LoginFleet, browser: Browser) -> None:
    """The replicas only verify tokens. A client that knows the identity provider logs in there."""
    idp = fleet.settings["IDP"]
    said = {"redirect_uris": [REDIRECT], "application_type": "native", "token_endpoint_auth_method": "none"}
    registered = httpx.post(f"{idp}/reg", json=said)
    assert registered.status_code == 201, registered.text
    client = OAuthClient(fleet.url, registered.json()["client_id"])
    authorize = client.authorization(idp, f"openid {SCOPES}").replace(f"{idp}/authorize", f"{idp}/auth")
    token = client.exchange(idp, browser.log_in(authorize, REDIRECT)["code"]).json()["access_token"]
    assert all(may_call(url, token) for url in fleet.urls)
    weak = client.authorization(idp, "openid").replace(f"{idp}/authorize", f"{idp}/auth")
    weak_token = client.exchange(idp, browser.log_in(weak, REDIRECT)["code"]).json()["access_token"]
    for url in fleet.urls:
        for wrong in (token[:-8] + "AAAAAAAA", weak_token):
            assert legacy(url, "tools/list", Authorization=f"Bearer {wrong}").status_code == 401
        assert legacy(url, "tools/list", {}).status_code == 401
