"""`/`: a page for people who open the address of the server in a browser, and how to add the server to common clients.

The page shows commands, and entries for files. `anyreplica install` runs or writes them.
"""

import base64
import functools
import hashlib
import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

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
from anyreplica.settings import CoreSettings

if TYPE_CHECKING:
    from jinja2 import Template

_HEADER = re.compile(r"Authorization: Bearer (<token>|\$\w+)")

TOKEN = "<token>"  # noqa: S105
"""Stands for the token on the home page."""


@dataclass(frozen=True)
class ClientSetup:
    """A client, and how a user adds a server to it.

    Attributes:
        key: Its name on the command line.
        name: Its name for people.
        command: The command that adds the server. Empty: the server belongs into the file.
        file: The file with the client's servers, relative to the user's home.
        servers: The key in the file whose value has all servers.
        server: The name of the server.
        entry: The settings of the server in the file.
        link: A click on this link adds the server to the client. Empty: the client has no such links.
    """

    key: str
    name: str
    command: tuple[str, ...] = ()
    file: str = ""
    servers: str = "mcpServers"
    server: str = ""
    entry: Mapping[str, Any] = field(default_factory=dict)
    link: str = ""

    @property
    def place(self) -> str:
        """Where the text belongs: `shell`, or the file."""
        return "shell" if self.command else f"~/{self.file}"

    @property
    def text(self) -> str:
        """The command, or the content of a file that has only this server."""
        if self.command:
            return " ".join(map(_quoted, self.command))
        return json.dumps({self.servers: {self.server: self.entry}}, indent=2)


def clients(name: str, url: str, token: str = "", variable: str = "MCP_TOKEN") -> list[ClientSetup]:
    """Return all clients that we know.

    Args:
        name: The name of the server.
        url: The URL of its MCP endpoint.
        token: The token that clients send as `Authorization: Bearer TOKEN`. Empty: the server needs no token.
        variable: The environment variable with the token, for a client that stores the name of a variable instead.
    """
    bearer = f"Authorization: Bearer {token}"
    header = ("--header", bearer) if token else ()
    headers = {"headers": {"Authorization": f"Bearer {token}"}} if token else {}
    named = ("--bearer-token-env-var", variable) if token else ()
    entry = {"type": "http", "url": url, **headers}
    encoded = base64.b64encode(json.dumps({"url": url, **headers}).encode()).decode()
    cursor = f"cursor://anysphere.cursor-deeplink/mcp/install?name={quote(name)}&config={quote(encoded)}"
    vscode = json.dumps({"name": name, **entry})
    return [
        ClientSetup("claude-code", "Claude Code", ("claude", "mcp", "add", "--transport", "http", name, url, *header)),
        ClientSetup("cursor", "Cursor", file=".cursor/mcp.json", server=name, entry=entry, link=cursor),
        ClientSetup("vscode", "VS Code", ("code", "--add-mcp", vscode), link=f"vscode:mcp/install?{quote(vscode)}"),
        ClientSetup(
            "windsurf",
            "Windsurf",
            file=".codeium/windsurf/mcp_config.json",
            server=name,
            entry={"serverUrl": url, **headers},
        ),
        ClientSetup("codex", "Codex", ("codex", "mcp", "add", name, "--url", url, *named)),
        ClientSetup(
            "gemini",
            "Gemini CLI",
            ("gemini", "mcp", "add", "--scope", "user", "--transport", "http", *header, name, url),
        ),
    ]


def _quoted(word: str) -> str:
    """Return a word for a shell. The shell replaces a variable in a header."""
    return f'"{word}"' if _HEADER.fullmatch(word) else shlex.quote(word)


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
