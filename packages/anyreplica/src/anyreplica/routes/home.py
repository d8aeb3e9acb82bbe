"""`/`: a page for people who open the address of the server in a browser."""

import base64
import functools
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from ipaddress import IPv6Address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_types.version import KNOWN_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Match, Route
from starlette.types import Scope

from anyreplica._version import __version__
from anyreplica.auth.caller import caller_of, may_use
from anyreplica.http.request_record import prefix
from anyreplica.mcp.catalogue import Catalogue
from anyreplica.process.lifecycle import Lifecycle
from anyreplica.routes.clients import TOKEN, clients
from anyreplica.settings import CoreSettings

if TYPE_CHECKING:
    from jinja2 import Template


_HOST = re.compile(r"[A-Za-z0-9.-]+(:\d+)?|\[([0-9a-fA-F:]+)\](:\d+)?")

_FOLDER = Path(__file__).parent

PAGE_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",  # for browsers that do not support frame-ancestors
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}
"""The headers of each page, besides its Content-Security-Policy."""


def home_route(settings: CoreSettings, replica: str, version: str, catalogue: Catalogue | None) -> Route:
    """Return the route `GET /`. Its page says how to connect and lists the components.

    Args:
        settings: The settings.
        replica: The name of the replica.
        version: The version that the author has given the server. It may be empty.
        catalogue: The components. None if callers need a token: the page then does not list the components.
    """

    async def show(request: Request) -> Response:
        css = page_file(_FOLDER, "home.css")
        html = page_template("home.html").render(
            connection(settings, base_url(request), guarded=catalogue is None),
            css=css,
            version=version,
            replica=replica,
            prefix=prefix(request.scope),
            catalogue=catalogue,
        )
        policy = f"default-src 'none'; style-src {hash_source(css)}; frame-ancestors 'none'; base-uri 'none'"
        return HTMLResponse(html, headers={**PAGE_HEADERS, "Content-Security-Policy": policy})

    return PageRoute("/", show)


def connection(settings: CoreSettings, base: str, *, guarded: bool) -> dict[str, Any]:
    """Return the variables of `connect.html`, the part of a page that says how to connect.

    Args:
        settings: The settings.
        base: The URL of the server, see `base_url`.
        guarded: Whether callers need a token.
    """
    url = f"{base}{settings.mcp_path}"
    return {
        "name": settings.mcp_name,
        "settings": settings,
        "base": base,
        "guarded": guarded,
        "clients": clients(settings.mcp_name, url, TOKEN if guarded else ""),
        "curl": _curl(url, secured=guarded),
    }


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


class PageRoute(Route):
    """A route for GET and HEAD. A client that posts its messages to `/` has the wrong URL, so it gets 404, not 405."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, child = super().matches(scope)
        return (match, child) if match is Match.FULL else (Match.NONE, {})


@functools.cache
def page_template(name: str, folder: Path = _FOLDER) -> "Template":
    """Return a template of a page. It may include the files of its folder and those of this one."""
    # Imported at the first use, because most replicas never show a page.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415

    environment = Environment(
        loader=FileSystemLoader([folder, _FOLDER]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template(name)


@functools.cache
def page_file(folder: Path, name: str) -> str:
    """Return the content of a file that a page contains."""
    return (folder / name).read_text()


@functools.cache
def hash_source(text: str) -> str:
    """Return the source for a Content-Security-Policy that allows exactly this inline text (CSP 3, section 2.3.1)."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


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
    of each tool (fast path or FastMCP path), and only of the tools that they may use.

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
            content["paths"] = {tool: path for tool, path in paths().items() if may_use(request.scope, tool)}
        return JSONResponse(content)

    return Route("/version", show)
