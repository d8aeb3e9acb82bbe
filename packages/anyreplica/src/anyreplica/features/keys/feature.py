"""The feature *keys*: callers with a key of the operator, or with a token of an issuer."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import cast

from fastmcp import FastMCP
from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from pydantic import AnyHttpUrl
from starlette.routing import BaseRoute, Route

from anyreplica.auth.authentication import METADATA, Challenge, TokenSource, login_name
from anyreplica.auth.caller import Caller
from anyreplica.components.discovery import Discovered
from anyreplica.feature import Feature, Parts, Replica
from anyreplica.features.keys.key import KeyFileError, KeyRing
from anyreplica.features.keys.settings import KeySettings
from anyreplica.features.keys.tokens import Tokens
from anyreplica.settings.errors import StartupError


class Keys(Feature):
    """Knows the holders of AUTH_TOKEN, of the keys in API_KEYS_FILE, and of tokens of AUTH_JWT_ISSUER."""

    settings: KeySettings

    def check(self) -> None:
        if self.settings.auth_enabled:
            self._ring()
            Tokens.of(self.settings)

    def check_server(self, mcp: FastMCP, components: Discovered, replicas: int) -> None:
        login = login_name(mcp, self.settings)
        if login and self.settings.auth_enabled and self.settings.auth_jwt_issuer:
            raise StartupError(
                f"AUTH_JWT_ISSUER: the server has a login already ({login}); "
                "unset it, or accept both kinds of tokens with FastMCP's MultiAuth"
            )

    def attach(self, replica: Replica) -> Parts:
        if not self.settings.auth_enabled:
            return Parts()
        ring, tokens = self._ring(), Tokens.of(self.settings)
        sources: list[TokenSource] = [KeyHolders(ring)]
        if tokens is None:
            return Parts(tokens=sources, public_keys=[ring], open_first=[ring.running()])
        metadata = str(build_resource_metadata_url(self._resource()))
        return Parts(
            tokens=[*sources, tokens],
            public_keys=[ring],
            challenges=[Challenge(self.settings.auth_jwt_scopes, metadata)],
            first_routes=self._metadata_routes(),
            open_first=[ring.running(), _closing(tokens)],
        )

    def _ring(self) -> KeyRing:
        token = self.settings.auth_token.get_secret_value() if self.settings.auth_token else None
        try:
            return KeyRing(token, self.settings.api_keys_file, self.settings.rate)
        except KeyFileError as error:
            raise StartupError(f"API_KEYS_FILE: {error}") from None

    def _resource(self) -> AnyHttpUrl:
        """Return the identifier of the protected resource (RFC 9728, section 1.2)."""
        return AnyHttpUrl(f"{self.settings.public_url}{self.settings.mcp_path}")

    def _metadata_routes(self) -> list[BaseRoute]:
        """Return the metadata routes (RFC 9728) that name the issuer of tokens.

        Each metadata document is also served at the paths that clients ask when `PUBLIC_URL` has no path.
        """
        routes = create_protected_resource_routes(
            self._resource(),
            # As text, because clients compare the issuer byte by byte, and `AnyHttpUrl` adds a slash to a bare host.
            cast("list[AnyHttpUrl]", [self.settings.auth_jwt_issuer]),
            list(self.settings.auth_jwt_scopes) or None,
            self.settings.mcp_name,
        )
        paths = (METADATA, METADATA + self.settings.mcp_path)
        return [*routes, *(Route(path, route.app, methods=["GET", "OPTIONS"]) for route in routes for path in paths)]


class KeyHolders:
    """The callers with a key. They are known at once."""

    required_scopes: Sequence[str] = ()

    def __init__(self, ring: KeyRing) -> None:
        self.known = ring.caller

    async def caller(self, token: bytes) -> Caller | None:  # see `known`
        return None


@asynccontextmanager
async def _closing(tokens: Tokens) -> AsyncIterator[None]:
    """Close the connections to the issuer on exit."""
    try:
        yield
    finally:
        await tokens.close()
