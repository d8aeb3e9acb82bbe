"""The login that the settings name."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import fastmcp
import pytest
from fastmcp.server.auth import AuthProvider, JWTVerifier, cimd
from fastmcp.server.auth.providers.azure import AzureProvider
from fastmcp.server.auth.providers.github import GitHubProvider
from fastmcp.server.auth.providers.google import GoogleProvider
from fastmcp.server.auth.providers.keycloak import KeycloakAuthProvider
from fastmcp.server.auth.providers.workos import WorkOSProvider
from key_value.aio.stores.memory import MemoryStore

from anyreplica import Settings
from anyreplica.features.login.providers import named_provider
from anyreplica.features.login.settings import NEEDS
from conftest import free_port
from tests.auth.login.browser import Browser
from tests.auth.login.fleets import logins
from tests.auth.login.flow import OAuthClient
from tests.auth.login.server import CLIENT, SECRET
from tests.auth.login.test_flow import may_call
from tests.replicas import KEYS
from tests.starts import SAMPLE, start

VALUES = {
    "login_client_id": "an-application",
    "login_client_secret": "the-secret-of-the-application",
    "login_issuer": "https://login.example.com/realms/one",
    "login_tenant": "a-tenant",
    "login_audience": "an-audience",
    "login_scopes": "read,write",
    "public_url": "https://mcp.example.com",
}
KINDS: dict[str, type[AuthProvider]] = {
    "github": GitHubProvider,
    "google": GoogleProvider,
    "azure": AzureProvider,
    "workos": WorkOSProvider,
    "keycloak": KeycloakAuthProvider,
}


def needed(provider: str) -> dict[str, Any]:
    """Return the settings that a provider needs."""
    names = [*NEEDS[provider], "public_url"]
    return {"login_provider": provider, **{name: VALUES[name] for name in names}}


@pytest.mark.parametrize("provider", KINDS)
def test_a_provider_is_made_from_settings(provider: str) -> None:
    """The settings of each provider make FastMCP's provider of this name."""
    made = named_provider(Settings(**needed(provider)), MemoryStore())
    assert type(made) is KINDS[provider]
    assert str(made.base_url) == "https://mcp.example.com/"


def test_scopes_and_audience_are_passed_on() -> None:
    """LOGIN_SCOPES are required of every token, and LOGIN_AUDIENCE is the audience."""
    settings = Settings(**needed("keycloak"), login_audience="an-audience", login_scopes="read,write")
    made = named_provider(settings, None)
    assert made.required_scopes == ["read", "write"]
    assert isinstance(made, KeycloakAuthProvider)
    assert isinstance(made.token_verifier, JWTVerifier)
    assert made.token_verifier.audience == "an-audience"


@pytest.mark.parametrize("provider", NEEDS)
def test_a_missing_setting_is_named(provider: str) -> None:
    """Each setting that a provider needs is required."""
    for missing in (*NEEDS[provider], "public_url"):
        values = {name: value for name, value in needed(provider).items() if name != missing}
        with pytest.raises(ValueError, match=f"{missing.upper()}: required by LOGIN_PROVIDER={provider}"):
            Settings(**values)


@pytest.mark.parametrize(
    ("provider", "unused"), [("keycloak", "login_client_id"), ("github", "login_issuer"), ("google", "login_tenant")]
)
def test_a_setting_without_effect_is_refused(provider: str, unused: str) -> None:
    """A setting that the provider does not use, or without a named provider, is probably a mistake."""
    with pytest.raises(ValueError, match=f"{unused.upper()}: not used by LOGIN_PROVIDER={provider}; unset it"):
        Settings(**{**needed(provider), unused: VALUES[unused]})
    with pytest.raises(ValueError, match=f"LOGIN_PROVIDER: required by {unused.upper()}; set it"):
        Settings(**{unused: VALUES[unused]})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not a URL"):
        Settings(login_issuer="login.example.com")


def check(tmp_path: Path, app: str = SAMPLE, **settings: str) -> tuple[int, str]:
    """Return the exit code and stderr of `check`."""
    settings |= {"MCP_PORT": str(free_port()), "LOG_LEVEL": "ERROR", "FASTMCP_HOME": str(tmp_path)}
    # A server of the tests replaces the function of `cimd`, and FastMCP has read its home before the test.
    with patch.object(cimd, "ssrf_safe_fetch_response"), patch.object(fastmcp.settings, "home", tmp_path):
        done = start("check", app=app, **settings)
    return done.returncode, done.stderr


NEEDS_REDIS = (
    "REDIS_URL: required by LOGIN_PROVIDER=github with 3 replicas, because replicas share clients, codes and tokens in "
    "Redis; set it\n"
)
GITHUB = {name.upper(): value for name, value in needed("github").items()}


def test_several_replicas_need_redis(tmp_path: Path) -> None:
    """A named provider with state needs Redis for several replicas, but not for a single one."""
    assert check(tmp_path, MCP_REPLICAS="3", REQUEST_STATE_KEYS=KEYS, **GITHUB) == (3, NEEDS_REDIS)
    assert check(tmp_path, **GITHUB) == (0, "")


def test_code_and_settings_are_not_combined(tmp_path: Path) -> None:
    """Two logins would both serve the same routes."""
    settings = {"AUTH": "verifier", "JWKS": "https://login.example.com/keys", "MCP_COMPONENTS": "server", **GITHUB}
    said = "LOGIN_PROVIDER=github: the server's code chooses a login already (JWTVerifier); unset it\n"
    assert check(tmp_path, "tests.auth.login.server:create_app", **settings) == (3, said)


def test_an_identity_provider_that_does_not_answer_is_named(tmp_path: Path) -> None:
    """The last line of the start names the setting."""
    settings = {name.upper(): str(value) for name, value in needed("oidc").items()}
    code, error = check(tmp_path, **{**settings, "LOGIN_ISSUER": f"http://127.0.0.1:{free_port()}"})
    assert code == 3
    assert error.splitlines()[-1].startswith("LOGIN_ISSUER=http://127.0.0.1:")


@pytest.mark.servers
@pytest.mark.needs("node")
@pytest.mark.needs("redis")
def test_users_log_in_with_a_provider_of_the_settings(tmp_path: Path, browser: Browser) -> None:
    """LOGIN_PROVIDER=oidc works like the provider in the server's code."""
    settings = {"AUTH": "settings", "LOGIN_PROVIDER": "oidc", "LOGIN_CLIENT_ID": CLIENT, "LOGIN_CLIENT_SECRET": SECRET}
    with logins(tmp_path, 2, 300, jobs=False, LOGIN_ISSUER="IDP", LOGIN_SCOPES="mcp", **settings) as fleet:
        client = OAuthClient(fleet.url)
        assert client.register(fleet.url, scope="mcp").status_code == 201
        tokens = client.exchange(fleet.urls[0], client.code(fleet.urls[1], browser, "mcp")).json()
        assert not may_call(fleet.urls[0], tokens["access_token"]), "the tool needs another scope"
        renewed = client.refresh(fleet.urls[1], tokens["refresh_token"])
        assert renewed.status_code == 200
        assert client.revoke(fleet.urls[0], renewed.json()["access_token"]).status_code == 200
        assert client.refresh(fleet.urls[1], renewed.json()["refresh_token"]).status_code == 401
