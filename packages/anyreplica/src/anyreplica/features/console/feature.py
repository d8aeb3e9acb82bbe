"""The page at `/`, and the route that tells which replicas are known."""

import time
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from anyreplica._version import __version__
from anyreplica.feature import Feature, Parts, Replica
from anyreplica.features.console.page import Documents, content_security_policy, render
from anyreplica.features.console.replicas import KnownReplicas
from anyreplica.features.console.settings import ConsoleSettings
from anyreplica.http.compression import accepts_gzip
from anyreplica.http.refusal import Refused
from anyreplica.mcp.catalogue import version_of
from anyreplica.routes.home import PAGE_HEADERS, PageRoute, base_url

_REPLICAS = "/replicas"


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
