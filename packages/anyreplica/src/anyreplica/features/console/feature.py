"""The feature *console*: the page at `/`, and the route that tells which replicas are known.

The page is one HTML document with its style and its script inside. A page of several files could get them from replicas
of two versions during an update. So the script is one text: the modules of the folder `page` one after the other,
without their imports and exports. They share one scope, so each name at the top level exists once.
"""

import functools
import gzip
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cachetools import LRUCache
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from anyreplica._version import __version__
from anyreplica.feature import Feature, Parts, Replica
from anyreplica.features.console.replicas import KnownReplicas
from anyreplica.features.console.settings import ConsoleSettings
from anyreplica.http.compression import accepts_gzip
from anyreplica.http.responses import Refused
from anyreplica.mcp.catalogue import version_of
from anyreplica.routes.home import PAGE_HEADERS, PageRoute, base_url, connection, hash_source, page_file, page_template

_REPLICAS = "/replicas"

_FOLDER = Path(__file__).parent / "page"

_MODULES = (
    "json",
    "dom",
    "schema",
    "inputs",
    "fields",
    "form",
    "events",
    "protocol",
    "client",
    "login",
    "content",
    "snippets",
    "questions",
    "call",
    "components",
    "jobs",
    "chart",
    "swarm",
    "main",
)
"""The modules, each one after those that it imports."""

_LEVEL = 6
"""Compression level of gzip. Higher levels take twice the time and make the page only 1 % smaller."""

_DOCUMENTS = 8
"""Number of documents that a replica keeps."""

_EVERY_SECONDS = 1.0
"""Minimum time between two compressions of the page in a replica, in seconds."""

_IMPORTS = re.compile(r'^import .* from "\./\w+\.js";\n', re.MULTILINE)
_EXPORTS = re.compile(r"^export ", re.MULTILINE)


class Console(Feature):
    """Serves the console: a client of the server, in a browser.

    The page has no rights of its own. It sends requests to the MCP endpoint and to `/jobs`, as any client does. So
    everybody may load it. `GET /replicas` needs authentication, because it names the replicas.
    """

    settings: ConsoleSettings

    def attach(self, replica: Replica) -> Parts:
        if self.settings.console == "off":
            return Parts()
        started = time.time()

        def state() -> dict[str, Any]:
            return {
                "name": replica.name,
                "version": version_of(replica.mcp) or __version__,
                "status": replica.lifecycle.state,
                "started": round(started, 3),
                "uptime_seconds": round(time.time() - started, 1),
                "in_flight": replica.limits.in_flight.count,
            }

        known = KnownReplicas(replica.redis, self.settings.mcp_name, replica.name, state)

        documents = Documents(lambda base: render(self.settings, replica, base))

        async def show(request: Request) -> Response:
            plain, compressed = documents.document(base_url(request))
            policy = content_security_policy(self._issuers(replica))
            headers = {**PAGE_HEADERS, "Content-Security-Policy": policy}
            if compressed is None or not accepts_gzip(request.headers.get("accept-encoding", "").encode()):
                return HTMLResponse(plain, headers=headers)  # may be compressed like any large reply, in a thread
            encoded = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
            return HTMLResponse(compressed, headers=headers | encoded)

        async def list_replicas(request: Request) -> Response:
            try:  # a page of another site must not read the names of a server on this machine
                await replica.limits.heads.check_source(request.scope, request.receive)
            except Refused as refused:
                return JSONResponse({"error": "refused", "message": refused.message}, refused.status)
            return JSONResponse({"replicas": known.all()}, headers={"Cache-Control": "no-store"})

        return Parts(
            open_routes=[PageRoute("/", show)],
            routes=[Route(_REPLICAS, list_replicas)],
            quiet=[_REPLICAS],
            running=[] if replica.is_trial else [known.running()],
        )

    def _issuers(self, replica: Replica) -> set[str]:
        """Return the origins of other servers at which the page may have to get a token."""
        named = (getattr(self.settings, each, "") for each in ("auth_jwt_issuer", "login_issuer"))
        servers: Iterable[Any] = getattr(replica.mcp.auth, "authorization_servers", ())
        urls = [urlsplit(str(each)) for each in (*named, *servers) if each]
        return {f"{url.scheme}://{url.netloc}" for url in urls}


@functools.cache
def script() -> str:
    """Return the script of the page."""
    texts = (page_file(_FOLDER, f"{name}.js") for name in _MODULES)
    return "".join(_EXPORTS.sub("", _IMPORTS.sub("", text)) for text in texts)


def render(settings: ConsoleSettings, replica: Replica, base: str) -> str:
    """Return the HTML of the page.

    Args:
        settings: The settings.
        replica: The replica that serves the page.
        base: The URL of the server, see `base_url`.
    """
    return page_template("console.html", _FOLDER).render(
        connection(settings, base, guarded=replica.is_guarded),
        css=page_file(_FOLDER, "console.css"),
        script=script(),
        version=version_of(replica.mcp),
        replica=replica.name,
    )


class Documents:
    """The page as bytes, by the URL of the server.

    A page contains the URL at which the browser has opened it, and a caller can put any host into this URL. So a
    replica keeps only a few pages, and compresses at most one page per second on the event loop. Other pages are
    compressed like any large reply: less, and in a thread.

    Args:
        render: Returns the page for a URL of the server.
        clock: Returns the time in seconds.
    """

    def __init__(self, render: Callable[[str], str], clock: Callable[[], float] = time.monotonic) -> None:
        self._render = render
        self._clock = clock
        self._kept: LRUCache[str, tuple[bytes, bytes]] = LRUCache(_DOCUMENTS)
        self._next = clock()

    def document(self, base: str) -> tuple[bytes, bytes | None]:
        """Return a page, and the same page compressed with gzip, or None if the replica must not compress it now.

        Args:
            base: The URL of the server, see `base_url`.
        """
        kept = self._kept.get(base)
        if kept is not None:
            return kept
        plain, now = self._render(base).encode(), self._clock()
        if now < self._next:
            return plain, None
        self._next = now + _EVERY_SECONDS
        compressed = gzip.compress(plain, _LEVEL, mtime=0)
        self._kept[base] = plain, compressed
        return plain, compressed


def content_security_policy(issuers: Iterable[str]) -> str:
    """Return the Content-Security-Policy of the page. It allows only the page's own script and style.

    Args:
        issuers: The origins of other servers that the page may send requests to.
    """
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {hash_source(script())}",
            f"style-src {hash_source(page_file(_FOLDER, 'console.css'))}",
            " ".join(("connect-src 'self'", *sorted(issuers))),
            "img-src data:",
            "media-src data:",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
        )
    )
