"""Who may pass: callers with a key, a token or a signature."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from pydantic import AnyHttpUrl
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_swarm.auth.caller import CALLER, Caller
from mcp_swarm.auth.key_file import KeyFileError
from mcp_swarm.auth.key_ring import KeyRing
from mcp_swarm.auth.refusal import Refusal
from mcp_swarm.auth.tokens import Tokens
from mcp_swarm.http.body import Body
from mcp_swarm.http.refusal import ClientGone, Refused, send_refusal
from mcp_swarm.settings import Settings
from mcp_swarm.settings.errors import StartupError

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from mcp_swarm.auth.signed_requests import SignedRequests

_METADATA = "/.well-known/oauth-protected-resource"
"""RFC 9728, section 3; the path of the resource itself may follow."""

OPEN_PATHS = frozenset({"/", "/healthz", "/health", "/readyz", "/version", _METADATA, f"{_METADATA}/mcp"})
"""Answered without a token: probes, and what tells a person how to connect (and nothing of the catalogue)."""


class Authentication:
    """Asks callers who they are, if the settings want it: refuses who isn't known with 401, except to `OPEN_PATHS`.

    Raises:
        StartupError: a file that can't be used.
    """

    def __init__(self, settings: Settings, redis: "Redis | None", body: Body) -> None:
        self._settings = settings
        self._tokens: Tokens | None = None
        self._signed: SignedRequests | None = None
        if not settings.auth_enabled:
            return
        self._ring = _ring(settings)
        self._tokens = Tokens.of(settings)
        self._scopes = settings.auth_jwt_scopes if self._tokens is not None else ()
        self._metadata = str(build_resource_metadata_url(_resource(settings))) if self._tokens is not None else ""
        if settings.signing != "off":
            from mcp_swarm.auth import signed_requests  # noqa: PLC0415  # a library that few need: 26 ms

            self._signed = signed_requests.SignedRequests(settings, self._ring, redis, body)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep keys up to date meanwhile."""
        async with AsyncExitStack() as stack:
            if self._settings.auth_enabled:
                await stack.enter_async_context(self._ring.running())
            if self._tokens is not None:
                stack.push_async_callback(self._tokens.close)
            yield

    def guard(self, app: ASGIApp) -> ASGIApp:
        """The app behind the guard."""
        return partial(self._guarded, app) if self._settings.auth_enabled else app

    def routes(self) -> list[Route]:
        """Where clients learn who issues tokens (RFC 9728), if anybody does; at the root as well, as some ask there."""
        if self._tokens is None:
            return []
        routes = create_protected_resource_routes(
            _resource(self._settings),
            [AnyHttpUrl(self._settings.auth_jwt_issuer)],
            list(self._settings.auth_jwt_scopes) or None,
            self._settings.mcp_name,
        )
        paths = (_METADATA, f"{_METADATA}/mcp")
        return [*routes, *(Route(path, route.app, methods=["GET", "OPTIONS"]) for route in routes for path in paths)]

    async def _guarded(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        key = _bearer(scope)
        caller = self._ring.caller(key) if key else None
        try:
            if caller is None and key and self._tokens is not None:
                caller = await self._of_token(key, self._tokens)
            if self._signed is not None:
                caller, receive = await self._signed.check(scope, receive, caller)
            if caller is not None:
                scope[CALLER] = scope["user"] = caller
            elif scope["path"] not in OPEN_PATHS:
                raise self._unknown(key)
        except Refusal as refusal:
            await self._refuse(refusal, scope, receive, send)
        except Refused as refused:
            await send_refusal(scope, send, refused)
        except ClientGone:
            return
        else:
            await app(scope, receive, send)

    async def _of_token(self, token: bytes, tokens: Tokens) -> Caller | None:
        caller = await tokens.caller(token)
        if caller is not None and not set(self._scopes) <= set(caller.scopes):
            text = f"The token lacks a scope; it needs: {' '.join(self._scopes)}."
            raise Refusal("insufficient_scope", text, 403)
        return caller

    def _unknown(self, key: bytes | None) -> Refusal:
        if self._signed is not None and self._signed.required:
            return Refusal("signature_required", "Sign the request (RFC 9421); README says how.")
        if key is None:
            return Refusal("unauthorized", "Send the header Authorization: Bearer <token>.")
        return Refusal("invalid_token", "The bearer token is not valid.")

    async def _refuse(self, refusal: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
        """Say what is wrong and, in `WWW-Authenticate`, what to do (RFC 6750, section 3; RFC 9728, section 5.1)."""
        parts = {
            "realm": self._settings.mcp_name,
            "error": refusal.error if refusal.error != "unauthorized" else "",
            "scope": " ".join(self._scopes),
            "resource_metadata": self._metadata,
        }
        challenge = ", ".join(f'{name}="{value}"' for name, value in parts.items() if value)
        headers = {"WWW-Authenticate": f"Bearer {challenge}"}
        body = {"error": refusal.error, "message": str(refusal)}
        await JSONResponse(body, refusal.status, headers)(scope, receive, send)


def check(settings: Settings) -> None:
    """Look at the files that the settings name.

    Raises:
        StartupError: one that can't be used.
    """
    if settings.auth_enabled:
        _ring(settings)
        Tokens.of(settings)


def _ring(settings: Settings) -> KeyRing:
    token = settings.auth_token.get_secret_value() if settings.auth_token else None
    try:
        return KeyRing(token, settings.api_keys_file, settings.rate)
    except KeyFileError as error:
        raise StartupError(f"API_KEYS_FILE: {error}") from None


def _resource(settings: Settings) -> AnyHttpUrl:
    """What tokens are for (RFC 9728, section 1.2)."""
    return AnyHttpUrl(f"{settings.public_url}/mcp")


def _bearer(scope: Scope) -> bytes | None:
    """What `Authorization: Bearer …` shows (RFC 6750); empty for another scheme, or two; None without the header."""
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    if not given:
        return None
    scheme, _, key = given[0].partition(b" ")
    return key.strip() if len(given) == 1 and scheme.lower() == b"bearer" else b""
