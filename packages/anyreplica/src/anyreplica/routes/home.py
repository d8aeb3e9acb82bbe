"""`/`: a page for people who open the address of the server in a browser."""

import functools
import json
import re
from collections.abc import Callable, Mapping
from ipaddress import IPv6Address
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_types.version import KNOWN_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Match, Route
from starlette.types import Scope

from anyreplica._version import __version__
from anyreplica.auth.caller import caller_of
from anyreplica.http.request_record import prefix
from anyreplica.mcp.catalogue import Catalogue
from anyreplica.process.lifecycle import Lifecycle
from anyreplica.routes.clients import TOKEN, clients
from anyreplica.settings import CoreSettings

if TYPE_CHECKING:
    from jinja2 import Template


_HOST = re.compile(r"[A-Za-z0-9.-]+(:\d+)?|\[([0-9a-fA-F:]+)\](:\d+)?")

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",  # for browsers that do not support frame-ancestors
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}


def home_route(settings: CoreSettings, replica: str, version: str, catalogue: Catalogue | None) -> Route:
    """Return the route `GET /`. Its page says how to connect and lists the components.

    Args:
        settings: The settings.
        replica: The name of the replica.
        version: The version that the author has given the server. It may be empty.
        catalogue: The components. None if callers need a token: the page then does not list the components.
    """

    async def show(request: Request) -> Response:
        base = base_url(request)
        url = f"{base}{settings.mcp_path}"
        html = _template().render(
            name=settings.mcp_name,
            settings=settings,
            version=version,
            replica=replica,
            base=base,
            prefix=prefix(request.scope),
            clients=clients(settings.mcp_name, url, TOKEN if catalogue is None else ""),
            curl=_curl(url, secured=catalogue is None),
            catalogue=catalogue,
        )
        return HTMLResponse(html, headers=_HEADERS)

    return _Page("/", show)


def base_url(request: Request) -> str:
    """Return the URL of the server that a request has used. It ends before the path of a route."""
    host = request.headers.get("host", "")
    return f"{request.url.scheme}://{host if _is_host(host) else 'localhost'}{prefix(request.scope)}"


def _is_host(text: str) -> bool:
    """Return whether a text is a host as in a URL, perhaps with a port."""
    found = _HOST.fullmatch(text)
    if found is None or found[2] is None:
        return found is not None
    try:
        IPv6Address(found[2])
    except ValueError:
        return False
    return True


class _Page(Route):
    """A route for GET and HEAD. A client that posts its messages to `/` has the wrong URL, so it gets 404, not 405."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, child = super().matches(scope)
        return (match, child) if match is Match.FULL else (Match.NONE, {})


@functools.cache
def _template() -> "Template":
    # Imported at the first use, because most replicas never show the page.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template("home.html")


def _curl(url: str, *, secured: bool) -> str:
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    key = f" -H 'Authorization: Bearer {TOKEN}'" if secured else ""
    json_type = "application/json"
    return f"curl -X POST {url} -H 'Content-Type: {json_type}' \\\n  -H 'Accept: {json_type}'{key} -d '{message}'"


def version_route(
    name: str, replica: str, lifecycle: Lifecycle, paths: Callable[[], Mapping[str, str]], *, guarded: bool
) -> Route:
    """Return the route `GET /version`.

    Everybody may read the reply, so it names no library. With authentication, only authenticated callers see the path
    of each tool (fast path or FastMCP path).

    Args:
        name: The name of the server.
        replica: The name of the replica.
        lifecycle: The life of the replica.
        paths: A function that returns the path of each tool, with the reason if it is not simply the fast path.
        guarded: Whether callers must authenticate.
    """

    async def show(request: Request) -> Response:
        content: dict[str, object] = {
            "name": name,
            "version": __version__,
            "hostname": replica,
            "status": lifecycle.state,
            "protocol_versions": KNOWN_PROTOCOL_VERSIONS,
        }
        if not guarded or caller_of(request.scope) is not None:
            content["paths"] = paths()
        return JSONResponse(content)

    return Route("/version", show)
