"""The revocation of tokens (RFC 7009), for all replicas."""

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from joserfc.errors import JoseError
from mcp.server.auth.middleware.client_auth import AuthenticationError
from mcp.server.auth.routes import cors_middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from anyreplica.features.login import compat
from anyreplica.features.login.shared import SingleUse

if TYPE_CHECKING:
    from fastmcp.server.auth import OAuthProxy

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
        self._clients = compat.authenticator_of(proxy)

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
        grant = await compat.grant_of(self._proxy, str(claims["jti"]))
        for load in (self._proxy.load_access_token, partial(self._proxy.load_refresh_token, client)):
            found = await load(token)
            if found is not None:
                await self._proxy.revoke_token(found)  # at the identity provider, if it can revoke tokens
                break
        if grant is not None:
            await compat.forget_grant(self._proxy, grant)


def with_revocation(routes: list[BaseRoute], revocation: Revocation) -> list[BaseRoute]:
    """Return a provider's routes with this endpoint in place of the SDK's endpoint, if the provider has one."""
    return [revocation.route() if isinstance(route, Route) and route.path == _PATH else route for route in routes]


def _error(error: str, description: str, status: int) -> Response:
    return JSONResponse({"error": error, "error_description": description}, status, _NO_STORE)
