"""Authentication of requests with a key, a token or a signature."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, cast

from fastmcp.server.auth import AuthProvider
from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from pydantic import AnyHttpUrl
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from anyreplica.auth.caller import CALLER, Caller
from anyreplica.auth.key_file import KeyFileError
from anyreplica.auth.key_ring import KeyRing
from anyreplica.auth.refusal import Refusal
from anyreplica.auth.tokens import Tokens
from anyreplica.http.body import Body
from anyreplica.http.headers import path_of
from anyreplica.http.paths import mcp_paths
from anyreplica.http.refusal import ClientGone, Refused, send_refusal
from anyreplica.settings import Settings
from anyreplica.settings.errors import StartupError
from anyreplica.settings.extras import require_extra

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from anyreplica.auth.login.login import Login
    from anyreplica.auth.signed_requests import SignedRequests

_METADATA = "/.well-known/oauth-protected-resource"
"""Path of the protected resource metadata (RFC 9728, section 3). The path of the resource may follow."""

OPEN = frozenset({"/", "/health", "/version"})
"""Paths of this package that need no authentication, besides the probes and the metadata of a login. They reveal
nothing about the components."""


def open_paths(settings: Settings) -> frozenset[str]:
    """Return the paths that need no authentication: probes, and pages that say how to connect."""
    metadata = {_METADATA, _METADATA + settings.mcp_path}
    return OPEN | metadata | {settings.liveness_path, settings.readiness_path}


class Authentication:
    """The authenticator. It refuses an unknown caller with HTTP 401, unless `is_open` accepts the request.

    It does nothing if the settings enable no authentication and the server has no login. With both, it looks for a key
    first, and lets the login verify all other tokens.

    Raises:
        StartupError: the file of API keys or the JWKS file is not valid, or the packages of signatures are missing.

    Attributes:
        required: whether callers must authenticate.
        is_open: returns whether a request needs no authentication. It decides by route, so `App` sets it.
    """

    def __init__(self, settings: Settings, redis: "Redis | None", body: Body, login: "Login | None" = None) -> None:
        self.required = settings.auth_enabled or login is not None
        self._settings = settings
        self._login = login
        self._mcp = mcp_paths(settings)
        self.is_open: Callable[[Scope], bool] = lambda _: False
        self._ring: KeyRing | None = None
        self._tokens: Tokens | None = None
        self._signed: SignedRequests | None = None
        self._scopes: Sequence[str] = () if login is None else login.challenge_scopes
        self._metadata = "" if login is None else login.metadata
        if not settings.auth_enabled:
            return
        _check_extra(settings)
        self._ring = _ring(settings)
        self._tokens = Tokens.of(settings)
        if self._tokens is not None:
            self._scopes = settings.auth_jwt_scopes
            self._metadata = str(build_resource_metadata_url(_resource(settings)))
        if settings.signing != "off":
            from anyreplica.auth import signed_requests  # noqa: PLC0415  # its import takes 26 ms, and few need it

            self._signed = signed_requests.SignedRequests(settings, self._ring, redis, body)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Reload keys when their file changes; on exit, close the connections to the issuer."""
        async with AsyncExitStack() as stack:
            if self._ring is not None:
                await stack.enter_async_context(self._ring.running())
            if self._tokens is not None:
                stack.push_async_callback(self._tokens.close)
            yield

    def guard(self, app: ASGIApp) -> ASGIApp:
        """Return the app with authentication in front of it, or the app itself if authentication is off."""
        if self._login is not None:
            return self._login.surround(partial(self._guarded, app))
        return partial(self._guarded, app) if self.required else app

    def provider(self, own: AuthProvider | None) -> AuthProvider | None:
        """Return what says to routes of FastMCP that callers need a token; None if they need none.

        Args:
            own: the provider of the server's author.
        """
        if own is not None or not self.required:
            return own
        return AuthProvider(self._settings.public_url or None, list(self._scopes))

    def routes(self) -> list[BaseRoute]:
        """Return the routes of the login, or the metadata routes (RFC 9728) that name the issuer of tokens.

        Each metadata document is also served at the paths that clients ask when `PUBLIC_URL` has no path.
        """
        if self._login is not None:
            return self._login.routes
        if self._tokens is None:
            return []
        routes = create_protected_resource_routes(
            _resource(self._settings),
            # As text, because clients compare the issuer byte by byte, and `AnyHttpUrl` adds a slash to a bare host.
            cast("list[AnyHttpUrl]", [self._settings.auth_jwt_issuer]),
            list(self._settings.auth_jwt_scopes) or None,
            self._settings.mcp_name,
        )
        paths = (_METADATA, _METADATA + self._settings.mcp_path)
        return [*routes, *(Route(path, route.app, methods=["GET", "OPTIONS"]) for route in routes for path in paths)]

    async def _guarded(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        open_ = scope["path"] not in self._mcp and path_of(scope) not in self._mcp and self.is_open(scope)
        try:
            caller, receive = await self._authenticate(scope, receive, required=not open_)
        except (Refusal, Refused) as refusal:
            if not open_:
                await self._refuse(refusal, scope, receive, send)
                return
            caller = None  # the route may have tokens of its own, which nobody here can verify
        except ClientGone:
            return
        if caller is not None:
            scope[CALLER] = scope["user"] = caller
            scope["auth"] = caller.credentials
        await app(scope, receive, send)

    async def _authenticate(self, scope: Scope, receive: Receive, *, required: bool) -> tuple[Caller | None, Receive]:
        """Return the caller of a request, and the function that receives its body.

        Raises:
            Refusal: the token or the signature is not valid, or there is none and it is required.
            Refused: the request cannot be checked now.
        """
        key = _bearer(scope)
        caller = self._ring.caller(key) if key and self._ring is not None else None
        if caller is None and key and (source := self._tokens or self._login) is not None:
            caller = await self._of_token(key, source)
        if required:
            if self._signed is not None:
                caller, receive = await self._signed.check(scope, receive, caller)
            if caller is None:
                raise self._unknown(key)
        return caller, receive

    async def _of_token(self, token: bytes, source: "Tokens | Login") -> Caller | None:
        caller = await source.caller(token)
        missing = [] if caller is None else [each for each in source.required_scopes if each not in caller.scopes]
        if missing:
            text = f"The token does not have all required scopes: {' '.join(source.required_scopes)}."
            raise Refusal("insufficient_scope", text, 403, f"Required scope: {missing[0]}")
        return caller

    def _unknown(self, key: bytes | None) -> Refusal:
        if self._signed is not None and self._signed.required:
            text = "The request is not signed; sign it (RFC 9421)."
            hint = 'The guide "Authentication" of the documentation says how.'
            return Refusal("signature_required", f"{text} {hint}")
        if key is None:
            return Refusal("unauthorized", "The request has no token; send the header Authorization: Bearer <token>.")
        return Refusal("invalid_token", "The bearer token is not valid.")

    async def _refuse(self, refusal: Refusal | Refused, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a refusal. A `Refusal` gets a `WWW-Authenticate` header (RFC 6750, section 3; RFC 9728, section 5.1).

        The header is the same as FastMCP's. It needs at least one parameter, so it has `realm` if there is no other.
        """
        if isinstance(refusal, Refused):
            await send_refusal(scope, send, refusal)
            return
        parts = {
            "error": refusal.error if refusal.error != "unauthorized" else "",
            "error_description": refusal.description,
            "scope": " ".join(self._scopes),
            "resource_metadata": self._metadata,
        }
        found = {name: value for name, value in parts.items() if value} or {"realm": self._settings.mcp_name}
        challenge = ", ".join(f'{name}="{value}"' for name, value in found.items())
        headers = {"WWW-Authenticate": f"Bearer {challenge}"}
        if path_of(scope) in self._mcp:  # clients of MCP show the text only if it is in a JSON-RPC error
            data = {"error": refusal.error}
            await send_refusal(scope, send, Refused(refusal.status, str(refusal), data=data, headers=headers))
            return
        body = {"error": refusal.error, "message": str(refusal)}
        await JSONResponse(body, refusal.status, headers)(scope, receive, send)


def check(settings: Settings) -> None:
    """Check the key files that the settings name, and the packages of signatures.

    Raises:
        StartupError: a file is not valid, or the packages are not installed.
    """
    if settings.auth_enabled:
        _check_extra(settings)
        _ring(settings)
        Tokens.of(settings)


def _check_extra(settings: Settings) -> None:
    if settings.signing != "off":
        require_extra("signatures", f"SIGNING={settings.signing}")


def _ring(settings: Settings) -> KeyRing:
    token = settings.auth_token.get_secret_value() if settings.auth_token else None
    try:
        return KeyRing(token, settings.api_keys_file, settings.rate)
    except KeyFileError as error:
        raise StartupError(f"API_KEYS_FILE: {error}") from None


def _resource(settings: Settings) -> AnyHttpUrl:
    """Return the identifier of the protected resource (RFC 9728, section 1.2)."""
    return AnyHttpUrl(f"{settings.public_url}{settings.mcp_path}")


def _bearer(scope: Scope) -> bytes | None:
    """Return the token of `Authorization: Bearer …` (RFC 6750), or None without this header.

    Return an empty value for another scheme, and for a request with several of these headers.
    """
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    if not given:
        return None
    scheme, _, key = given[0].partition(b" ")
    return key.strip() if len(given) == 1 and scheme.lower() == b"bearer" else b""
