"""Tokens and codes that are no longer valid, on all replicas: they are revoked (RFC 7009), or have been used once.

Codes, refresh tokens and assertions are valid only once. FastMCP's providers remember used assertions in the memory of
one process, and two processes can take the same code at the same moment. The functions `protect_…` surround the
methods that the SDK's handlers call.
"""

import json
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from fastmcp.server.auth import OAuthProvider
from joserfc.errors import JoseError
from joserfc.util import urlsafe_b64decode
from mcp.server.auth.middleware.client_auth import AuthenticationError
from mcp.server.auth.provider import AuthorizationCode, IdentityAssertionParams, RefreshToken, TokenError
from mcp.server.auth.routes import cors_middleware
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from anyreplica.features.login.assertions import SKEW_SECONDS
from anyreplica.features.login.shared import SharedLock, SharedLogins, SingleUse
from anyreplica.mcp.compat import oauth_proxy

if TYPE_CHECKING:
    from fastmcp.server.auth import OAuthProxy
    from fastmcp.server.auth.cimd import CIMDClientManager

_PATH = "/revoke"
_REVOKED = "revoked"
_NO_STORE = {"Cache-Control": "no-store", "Pragma": "no-cache"}


class Revocation:
    """The endpoint `/revoke` of a provider, in place of the SDK's endpoint.

    The SDK's endpoint refuses clients without a secret, and does not revoke an access token of FastMCP's proxy. This
    endpoint revokes the whole login: the access tokens and the refresh tokens that came from it.
    """

    def __init__(self, proxy: "OAuthProxy", once: SingleUse) -> None:
        self._proxy = proxy
        self._once = once
        self._clients = oauth_proxy.authenticator_of(proxy)

    def route(self) -> Route:
        """Return the route of the endpoint."""
        return Route(_PATH, cors_middleware(self._answer, ["POST", "OPTIONS"]), methods=["POST", "OPTIONS"])

    async def is_revoked(self, token: str) -> bool:
        """Return whether a token was revoked at any replica."""
        return await self._once.is_claimed(_REVOKED, token)

    async def _answer(self, request: Request) -> Response:
        try:
            client = await self._clients.authenticate_request(request)
        except AuthenticationError as error:
            return _error("invalid_client", error.message, 401)
        token = (await request.form()).get("token")
        if not isinstance(token, str) or not token:
            return _error("invalid_request", "The request has no token.", 400)
        claims = self._claims(token)
        if claims is not None and claims.get("client_id") == client.client_id:
            await self._revoke(client, token, claims)
        return Response(status_code=200, headers=_NO_STORE)  # also for an unknown token (RFC 7009, section 2.2)

    def _claims(self, token: str) -> dict[str, Any] | None:
        for use in ("access", "refresh"):
            try:
                return self._proxy.jwt_issuer.verify_token(token, expected_token_use=use)
            except (JoseError, ValueError, KeyError):
                continue
        return None

    async def _revoke(self, client: Any, token: str, claims: dict[str, Any]) -> None:
        # Revoke the token here first: the identity provider may not answer.
        await self._once.claim(_REVOKED, token, until=float(claims.get("exp") or time.time() + 3600))
        grant = await oauth_proxy.grant_of(self._proxy, str(claims["jti"]))
        for load in (self._proxy.load_access_token, partial(self._proxy.load_refresh_token, client)):
            found = await load(token)
            if found is not None:
                await self._proxy.revoke_token(found)  # at the identity provider, if it can revoke tokens
                break
        if grant is not None:
            await oauth_proxy.forget_grant(self._proxy, grant)


def with_revocation(routes: list[BaseRoute], revocation: Revocation) -> list[BaseRoute]:
    """Return a provider's routes with this endpoint in place of the SDK's endpoint, if the provider has one."""
    return [revocation.route() if isinstance(route, Route) and route.path == _PATH else route for route in routes]


def _error(error: str, description: str, status: int) -> Response:
    return JSONResponse({"error": error, "error_description": description}, status, _NO_STORE)


_CODE_SECONDS = 900
"""Time for which a used code is remembered. FastMCP's codes are valid for five minutes."""
_REFRESH_SECONDS = 300
"""Time for which a used refresh token is remembered. The storage has forgotten the token after its use; this mark is
for requests that read the storage before."""


def protect_codes(provider: OAuthProvider, once: SingleUse) -> None:
    """Accept each authorization code once."""
    original = method_of(provider, "exchange_authorization_code")

    async def exchange(client: OAuthClientInformationFull, authorization_code: AuthorizationCode) -> OAuthToken:
        # The SDK has checked the client and PKCE before, so nobody else can use up the code.
        if not await once.claim("code", authorization_code.code, until=time.time() + _CODE_SECONDS):
            raise TokenError("invalid_grant", "The authorization code was used before")
        tokens: OAuthToken = await original(client, authorization_code)
        return tokens

    setattr(provider, "exchange_authorization_code", exchange)  # noqa: B010  # mypy refuses an assignment to a method


def protect_refresh_tokens(provider: OAuthProvider, once: SingleUse, shared: SharedLogins) -> None:
    """Exchange each refresh token once. Requests with the same token wait for each other.

    If a replica is killed during the exchange, its lock ends, and the client can send the token again. The user must
    log in again if the token was replaced before the new one reached the client.
    """
    original = method_of(provider, "exchange_refresh_token")

    async def exchange(
        client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        token = refresh_token.token
        async with SharedLock(shared, "refreshing", token):
            if await provider.load_refresh_token(client, token) is None:  # another request was faster
                raise TokenError("invalid_grant", "The refresh token was used before")
            tokens: OAuthToken = await original(client, refresh_token, scopes)
        if not await once.claim("refresh", token, until=time.time() + _REFRESH_SECONDS):
            raise TokenError("invalid_grant", "The refresh token was used before")
        return tokens

    setattr(provider, "exchange_refresh_token", exchange)  # noqa: B010  # mypy refuses an assignment to a method


def protect_identity_assertions(provider: OAuthProvider, once: SingleUse) -> None:
    """Accept each identity assertion (ID-JAG) once."""
    original = method_of(provider, "exchange_identity_assertion")

    async def exchange(client: OAuthClientInformationFull, params: IdentityAssertionParams) -> OAuthToken:
        tokens: OAuthToken = await original(client, params)  # checks the assertion
        if not await _claim_assertion(once, "id-jag", params.assertion):
            raise TokenError("invalid_grant", "Invalid identity assertion")  # the text of all other refusals
        return tokens

    setattr(provider, "exchange_identity_assertion", exchange)  # noqa: B010  # mypy refuses an assignment to a method


def protect_client_assertions(manager: "CIMDClientManager", once: SingleUse) -> None:
    """Accept each assertion of a client (`private_key_jwt`) once."""
    original = method_of(manager, "validate_private_key_jwt")

    async def validate(assertion: str, client: Any, token_endpoint: str) -> bool:
        valid: bool = await original(assertion=assertion, client=client, token_endpoint=token_endpoint)
        if not await _claim_assertion(once, "assertion", assertion):
            raise ValueError("the assertion was used before")
        return valid

    setattr(manager, "validate_private_key_jwt", validate)  # noqa: B010  # mypy refuses an assignment to a method


async def _claim_assertion(once: SingleUse, kind: str, assertion: str) -> bool:
    """Mark a verified assertion as used. Return False if it was used before."""
    claims = cast("dict[str, Any]", json.loads(urlsafe_b64decode(assertion.split(".")[1].encode())))
    return await once.claim(kind, str(claims["iss"]), str(claims["jti"]), until=float(claims["exp"]) + SKEW_SECONDS)


def method_of(owner: Any, name: str) -> Callable[..., Awaitable[Any]]:
    """Return a method of the class, also if an earlier app in this process has replaced it in the object."""
    return partial(getattr(type(owner), name), owner)
