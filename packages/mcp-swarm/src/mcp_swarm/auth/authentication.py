"""Who is let in, put together by the settings: keys, tokens, signatures."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from pydantic import AnyHttpUrl
from starlette.routing import Route
from starlette.types import ASGIApp

from mcp_swarm.auth.authenticator import METADATA, Challenge, Guard
from mcp_swarm.auth.key_file import KeyFileError
from mcp_swarm.auth.key_ring import KeyRing
from mcp_swarm.auth.tokens import Tokens
from mcp_swarm.http.body import Body
from mcp_swarm.settings import Settings
from mcp_swarm.settings.errors import StartupError

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from mcp_swarm.auth.signed_requests import Signed


class Entrance:
    """What the guard needs, as long as it needs it; nothing where nobody is asked who they are.

    Args:
        redis: what replicas share, if they do.
        body: reads bodies of signed requests.

    Raises:
        StartupError: a file that can't be used.
    """

    def __init__(self, settings: Settings, redis: "Redis | None", body: Body) -> None:
        self._settings = settings
        self._tokens: Tokens | None = None
        self._signed: Signed | None = None
        if not settings.auth_enabled:
            return
        self._ring = _ring(settings)
        self._tokens = Tokens.of(settings)
        if settings.signing != "off":
            from mcp_swarm.auth import signed_requests  # noqa: PLC0415  # a library that few need: 26 ms

            self._signed = signed_requests.signed(settings, self._ring, redis, body)

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
        if not self._settings.auth_enabled:
            return app
        scopes = self._settings.auth_jwt_scopes if self._tokens is not None else ()
        metadata = str(build_resource_metadata_url(_resource(self._settings))) if self._tokens is not None else ""
        challenge = Challenge(self._settings.mcp_name, metadata, scopes)
        return Guard(app, self._ring, challenge, self._tokens, self._signed)

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
        return [*routes, *(Route(path, route.app, methods=["GET", "OPTIONS"]) for route in routes for path in _OTHER)]


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


_OTHER = (METADATA, f"{METADATA}/mcp")


def _resource(settings: Settings) -> AnyHttpUrl:
    return AnyHttpUrl(f"{settings.public_url}/mcp")
