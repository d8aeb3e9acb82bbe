"""The server card of SEP-2127 and the AI catalog that names it.

A client reads them before it connects. They never list tools, because a caller may see only some of them. Both are
drafts: the extension "Server Cards" of MCP (schema v1), and the AI Catalog specification 0.9.
"""

import ipaddress
import re
from typing import Any
from urllib.parse import urlsplit

from fastmcp import FastMCP
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from anyreplica._version import __version__
from anyreplica.feature import Feature, Parts, Replica
from anyreplica.features.server_card.settings import ServerCardSettings
from anyreplica.routes.home import base_url
from anyreplica.settings.errors import StartupError

_SCHEMA = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
_REGISTRY_SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
_CARD_TYPE = "application/mcp-server-card+json"
_CATALOG_TYPE = "application/ai-catalog+json"
_CATALOG_PATH = "/.well-known/ai-catalog.json"

_HEADERS = {
    "Access-Control-Allow-Origin": "*",  # the extension wants this: clients in browsers read the card
    "Access-Control-Allow-Methods": "GET",
    "Access-Control-Allow-Headers": "Content-Type, Accept",
    "X-Content-Type-Options": "nosniff",
}

_LONGEST_DESCRIPTION = 100
"""Maximum number of characters of a description in a card."""

_GENERIC = "An MCP server."
"""The description of a server that has none, or whose callers must authenticate. The instructions are for them only."""

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9._-]+")


class ServerCard(Feature):
    """Serves the card at `MCP_PATH/server-card`, and the catalog at `/.well-known/ai-catalog.json`."""

    settings: ServerCardSettings

    def attach(self, replica: Replica) -> Parts:
        if not self.settings.server_card:
            return Parts()

        async def show_card(request: Request) -> Response:
            content = card(self.settings, replica.mcp, self._base(request))
            return self._reply(content, _CARD_TYPE)

        async def show_catalog(request: Request) -> Response:
            base = self._base(request)
            name = name_of(self.settings, base)
            entry = {
                "identifier": f"urn:air:{_host(base)}:{name.partition('/')[2]}",
                "displayName": title_of(self.settings, replica.mcp),
                "type": _CARD_TYPE,
                "url": f"{base}{self.settings.mcp_path}/server-card",
            }
            content = {"specVersion": "0.9", "entries": [entry]}
            return self._reply(content, _CATALOG_TYPE)

        return Parts(
            open_routes=[
                Route(f"{self.settings.mcp_path}/server-card", show_card),
                Route(_CATALOG_PATH, show_catalog),
            ]
        )

    def _reply(self, content: dict[str, Any], media_type: str) -> Response:
        # Without PUBLIC_URL, the content depends on the Host header, so no cache may keep it for others.
        cache = "public, max-age=3600" if self.settings.public_url else "no-store"
        return JSONResponse(content, headers={**_HEADERS, "Cache-Control": cache}, media_type=media_type)

    def _base(self, request: Request) -> str:
        """Return the URL before `MCP_PATH`, as clients see it."""
        return self.settings.public_url or base_url(request)


def card(settings: ServerCardSettings, mcp: FastMCP, base: str) -> dict[str, Any]:
    """Return the card of a server: what is needed to connect to it.

    Args:
        settings: The settings.
        mcp: The server.
        base: The URL before `MCP_PATH`, as clients see it.
    """
    remote: dict[str, Any] = {
        "type": "streamable-http",
        "url": f"{base}{settings.mcp_path}",
        "supportedProtocolVersions": list(KNOWN_PROTOCOL_VERSIONS),
    }
    if settings.auth_enabled:  # a login needs no header: clients find it by the metadata of RFC 9728
        key = {"name": "Authorization", "description": "Bearer and a key or a token", "isRequired": True}
        remote["headers"] = [{**key, "isSecret": True}]
    found: dict[str, Any] = {
        "$schema": _SCHEMA,
        "name": name_of(settings, base),
        "version": mcp.version or __version__,  # what `serverInfo` says, too
        "description": _GENERIC if is_guarded(settings, mcp) else _description(mcp),
        "title": title_of(settings, mcp),
        "remotes": [remote],
    }
    if mcp.website_url:
        found["websiteUrl"] = mcp.website_url
    if mcp.icons:
        found["icons"] = [icon.model_dump(mode="json", by_alias=True, exclude_none=True) for icon in mcp.icons]
    return found


def is_guarded(settings: ServerCardSettings, mcp: FastMCP) -> bool:
    """Return whether callers must authenticate."""
    return bool(settings.auth_enabled or settings.chosen_login or getattr(mcp, "auth", None))


def registry_entry(settings: ServerCardSettings, mcp: FastMCP) -> dict[str, Any]:
    """Return the `server.json` of a server for the MCP registry (schema 2025-12-11).

    Raises:
        StartupError: `PUBLIC_URL` is not set.
    """
    if not settings.public_url:
        raise StartupError("PUBLIC_URL: a registry needs the URL at which clients reach this server; set PUBLIC_URL")
    entry = {**card(settings, mcp, settings.public_url), "$schema": _REGISTRY_SCHEMA}
    entry["description"] = _description(mcp)  # the author publishes this file, so it may say more than the card
    for remote in entry["remotes"]:
        del remote["supportedProtocolVersions"]
    return entry


def name_of(settings: ServerCardSettings, base: str) -> str:
    """Return the name of the server in catalogs: the host in reverse order, a slash, and the name."""
    if settings.server_card_name:
        return settings.server_card_name
    host = _host(base)
    place = host if _is_address(host) else ".".join(reversed(host.split(".")))
    return f"{place}/{_NOT_IN_NAMES.sub('-', settings.mcp_name).strip('-') or 'mcp'}"[:200]


def title_of(settings: ServerCardSettings, mcp: FastMCP) -> str:
    """Return the name of the server for people."""
    return (mcp.name or settings.mcp_name)[:_LONGEST_DESCRIPTION]


def _description(mcp: FastMCP) -> str:
    """Return the first line of the server's instructions. A card needs a description of at most 100 characters."""
    first = (mcp.instructions or "").strip().partition("\n")[0].strip()
    if len(first) > _LONGEST_DESCRIPTION:
        first = first[: _LONGEST_DESCRIPTION - 1].rstrip() + "…"
    return first or _GENERIC


def _host(base: str) -> str:
    """Return the host of a URL. An IPv6 address cannot be in a name, so its host is `localhost`."""
    host = urlsplit(base).hostname or "localhost"
    return "localhost" if ":" in host else host


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
