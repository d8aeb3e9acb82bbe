"""The login of an `MCPServer` of the MCP SDK: its own code verifies the tokens of an authorization server."""

from typing import Any

from fastmcp.server.auth import AuthProvider
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.routes import create_protected_resource_routes
from mcp.server.auth.settings import AuthSettings
from pydantic import AnyHttpUrl, ValidationError
from starlette.routing import Route


class SdkTokens(AuthProvider):
    """The options `auth=` and `token_verifier=` of an `MCPServer`, as an auth provider of FastMCP."""

    def __init__(self, auth: AuthSettings, verifier: TokenVerifier) -> None:
        super().__init__(base_url=auth.resource_server_url, required_scopes=auth.required_scopes)
        self._auth = auth
        self._verifier = verifier

    async def verify_token(self, token: str) -> Any:
        """Return what the author's code knows about a token, or None if the token is not valid for this server."""
        found: AccessToken | None = await self._verifier.verify_token(token)
        if found is None or not self._auth.validate_token_resource or self._auth.resource_server_url is None:
            return found
        return found if _same(found.resource, str(self._auth.resource_server_url)) else None

    def get_routes(self, mcp_path: str | None = None) -> list[Route]:  # noqa: ARG002  # the URL has the path
        """Return the routes of the protected resource metadata (RFC 9728), if the author has named the resource."""
        if self._auth.resource_server_url is None:
            return []
        return create_protected_resource_routes(
            resource_url=self._auth.resource_server_url,
            authorization_servers=[self._auth.issuer_url],
            scopes_supported=self._auth.required_scopes,
        )


def _same(resource: str | None, wanted: str) -> bool:
    """Return whether a token's resource (RFC 8707) is the URL of this server."""
    try:
        given = str(AnyHttpUrl(resource or ""))
    except ValidationError:
        return False
    return given.removesuffix("/") == wanted.removesuffix("/")
