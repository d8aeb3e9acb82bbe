"""Replace what tests use to serve a server of the MCP SDK over HTTP: `server.streamable_http_app()`."""

from contextlib import AbstractAsyncContextManager
from typing import Any
from weakref import WeakKeyDictionary

import pytest
from mcp.server import Server
from mcp.server.mcpserver import MCPServer

from upstream import serving
from upstream.http_app import HttpApp

_OTHER = {"event_store", "auth", "token_verifier", "auth_server_provider", "custom_starlette_routes"}
"""Options that belong to the app, not to the server. A test that uses one of them gets the app of the SDK."""
_patch = pytest.MonkeyPatch()
_apps: "WeakKeyDictionary[Any, HttpApp]" = WeakKeyDictionary()


def serve(*, ours: bool, sessions: bool) -> None:
    """Serve SDK servers with anyreplica, or with the SDK's HTTP app: see `fastmcp_servers.serve`."""
    for kind in (MCPServer, Server):
        _replace(kind, ours=ours, sessions=sessions)


def _replace(kind: Any, *, ours: bool, sessions: bool) -> None:
    own_app, own_manager = kind.streamable_http_app, kind.session_manager.fget

    def streamable_http_app(self: Any, **options: Any) -> Any:
        given = {key for key, value in options.items() if value is not None}
        path = options.get("streamable_http_path", "/mcp")
        _apps.pop(self, None)
        if given & _OTHER or path != "/mcp" or serving.within_server.get():
            return own_app(self, **options)
        serving.used[0] = True
        if not ours:
            return own_app(self, **{"stateless_http": not sessions} | options)
        app = _apps[self] = HttpApp(self, own_app(self, **options))
        return app

    def session_manager(self: Any) -> Any:
        return _Manager(_apps[self]) if self in _apps else own_manager(self)

    _patch.setattr(kind, "streamable_http_app", streamable_http_app)
    _patch.setattr(kind, "session_manager", property(session_manager))


class _Manager:
    """What tests use of the SDK's session manager: it runs the server."""

    def __init__(self, app: HttpApp) -> None:
        self._app = app

    def run(self) -> AbstractAsyncContextManager[None]:
        """Return a context manager in which the server runs."""
        return self._app.lifespan(self._app)
