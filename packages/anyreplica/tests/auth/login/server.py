"""A server with a login, for tests: `python -m tests.auth.login.server`.

Its variables are `IDP` (URL of the identity provider), `DOCUMENTS` (URL of the documents of CIMD clients), `JWKS` (keys
of the issuer of identity assertions) and `UPSTREAM` (URL of the server of `upstream.py`). `AUTH` chooses another
provider. Those of `AT_THE_IDP` use the identity provider, and the others use the issuer. With `LOOKUPS`, names under
`slow.example` resolve slowly, and each of these lookups adds a line to this file.
"""

import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
from fastmcp import FastMCP
from fastmcp.server.auth import (
    AuthProvider,
    IdentityAssertion,
    JWTVerifier,
    OAuthProxy,
    RemoteAuthProvider,
    TokenVerifier,
    cimd,
)
from fastmcp.server.auth.oidc_proxy import OIDCProxy
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider
from fastmcp.server.auth.providers.introspection import IntrospectionTokenVerifier
from fastmcp.server.auth.ssrf import SSRFFetchResponse
from fastmcp.server.dependencies import get_access_token
from pydantic import AnyHttpUrl, ConfigDict, TypeAdapter

from anyreplica import App, Settings, app_factory, main
from anyreplica import create_app as create
from tests.auth.issuer import NAME

CLIENT = "anyreplica"
SECRET = "the-secret-of-the-client-at-the-identity-provider"
DOCUMENTS = "https://client.example.com"
"""The host of CIMD documents. Without DNS, the server gets the documents from the URL in `DOCUMENTS`."""


async def _fetch(url: str, **_: Any) -> SSRFFetchResponse:
    """Get a document from 127.0.0.1."""
    async with httpx2.AsyncClient() as client:
        reply = await client.get(url.replace(DOCUMENTS, os.environ["DOCUMENTS"]))
    reply.raise_for_status()
    return SSRFFetchResponse(content=reply.content, status_code=reply.status_code, headers=dict(reply.headers))


def _oidc(url: str) -> OIDCProxy:
    assertions = IdentityAssertion(trusted_issuers=[NAME], jwks_uris={NAME: os.environ["JWKS"]})
    return OIDCProxy(
        config_url=f"{os.environ['IDP']}/.well-known/openid-configuration",
        client_id=CLIENT,
        client_secret=SECRET,
        base_url=url,
        required_scopes=["mcp"],
        valid_scopes=["mcp", "reports:read"],
        fastmcp_access_token_expiry_seconds=int(os.environ.get("TOKEN_SECONDS", "0")) or None,
        identity_assertion=assertions if "JWKS" in os.environ else None,
    )


def _verifier() -> JWTVerifier:
    return JWTVerifier(jwks_uri=os.environ["JWKS"], issuer=NAME, audience="https://mcp.example.com/mcp")


def _keys(url: str) -> JWTVerifier:
    """Return a verifier of the identity provider's tokens by its public keys."""
    idp = os.environ["IDP"]
    return JWTVerifier(jwks_uri=f"{idp}/jwks", issuer=idp, audience=f"{url}/mcp", required_scopes=["mcp"])


def _introspection() -> IntrospectionTokenVerifier:
    """Return a verifier that asks the identity provider about each token (RFC 7662)."""
    return IntrospectionTokenVerifier(
        introspection_url=f"{os.environ['IDP']}/token/introspection",
        client_id=CLIENT,
        client_secret=SECRET,
        required_scopes=["mcp"],
    )


def _exact(url: str) -> AnyHttpUrl:
    """Return a URL without the slash that `AnyHttpUrl(url)` adds after the host. Clients compare it with the issuer."""
    kept: AnyHttpUrl = TypeAdapter(AnyHttpUrl, config=ConfigDict(url_preserve_empty_path=True)).validate_python(url)
    return kept


def _proxy(url: str, verifier: TokenVerifier, authorize: str, token: str, revoke: str | None = None) -> OAuthProxy:
    return OAuthProxy(
        upstream_authorization_endpoint=authorize,
        upstream_token_endpoint=token,
        upstream_revocation_endpoint=revoke,
        upstream_client_id=CLIENT,
        upstream_client_secret=SECRET,
        token_verifier=verifier,
        base_url=url,
        valid_scopes=["mcp", "reports:read"],
    )


def _endpoints() -> list[str]:
    return [f"{os.environ['IDP']}/{path}" for path in ("auth", "token", "token/revocation")]


AT_THE_IDP: dict[str, Callable[[str], AuthProvider]] = {
    "oidc": _oidc,
    "oauth": lambda url: _proxy(url, _keys(url), *_endpoints()),
    "oauth-introspection": lambda url: _proxy(url, _introspection(), *_endpoints()),
    "remote-idp": lambda url: RemoteAuthProvider(_keys(url), [_exact(os.environ["IDP"])], url),
    "verifier-idp": _keys,
}


def provider(kind: str, url: str) -> AuthProvider:
    """Return the provider of a kind."""
    if kind in AT_THE_IDP:
        return AT_THE_IDP[kind](url)
    if kind == "memory":
        return InMemoryOAuthProvider(base_url=url)
    if kind == "proxy":
        upstream = os.environ.get("UPSTREAM", "http://127.0.0.1:9")
        return _proxy(url, _verifier(), f"{upstream}/authorize", f"{upstream}/token")
    if kind == "remote":
        return RemoteAuthProvider(_verifier(), [AnyHttpUrl(NAME)], url)
    return _verifier()


_resolve = socket.getaddrinfo


def _slowly(host: Any, *arguments: Any, **named: Any) -> Any:
    if isinstance(host, str) and host.endswith("slow.example"):
        with Path(os.environ["LOOKUPS"]).open("a") as lookups:
            lookups.write(f"{host}\n")
        time.sleep(40)  # longer than the test
        raise socket.gaierror(socket.EAI_AGAIN, "no answer")
    return _resolve(host, *arguments, **named)


def large() -> str:
    """Return a text that is compressed in a thread."""
    return "large " * 50_000


def whoami() -> str:
    """Return the name of the user."""
    token = get_access_token()
    return token.claims["sub"] if token else "nobody"


@app_factory
def create_app() -> App:
    """Create the app of one replica."""
    settings = Settings.load()
    if "LOOKUPS" in os.environ:
        socket.getaddrinfo = _slowly
    else:
        cimd.ssrf_safe_fetch_response = _fetch  # type: ignore[attr-defined]  # FastMCP refuses loopback addresses
    kind = os.environ.get("AUTH", "oidc")
    auth = None if kind == "settings" else provider(kind, settings.public_url)
    mcp = FastMCP(settings.mcp_name, auth=auth)
    mcp.tool(whoami)
    mcp.tool(large)
    return create(mcp, settings)


if __name__ == "__main__":
    sys.exit(main(app="tests.auth.login.server:create_app"))
