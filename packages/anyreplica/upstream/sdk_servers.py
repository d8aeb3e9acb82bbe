"""Replace what tests use to serve a server of the MCP SDK over HTTP: `server.streamable_http_app()`."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any
from weakref import WeakKeyDictionary

import pytest
from mcp.server import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

from upstream import serving
from upstream.http_app import HttpApp

_OTHER = {"event_store", "auth", "token_verifier", "auth_server_provider", "custom_starlette_routes"}
"""Options that belong to the app, not to the server. A test that uses one of them gets the app of the SDK."""
_patch = pytest.MonkeyPatch()
_apps: "WeakKeyDictionary[Any, HttpApp]" = WeakKeyDictionary()


def serve(*, ours: bool) -> None:
    """Serve SDK servers with anyreplica, or with the SDK's HTTP app.

    A test chooses by `stateless_http` whether clients of the handshake protocol have sessions.
    """
    for kind in (MCPServer, Server):
        _replace(kind, ours=ours)


def _settings_for(options: Mapping[str, Any]) -> dict[str, object]:
    """Return our settings that do what options of `streamable_http_app()` do."""
    settings: dict[str, object] = {
        "handshake_sessions": "off" if options.get("stateless_http") else "full",
        # With sessions, requests to the client need an event stream: json_response=True becomes "auto".
        "json_response": "auto" if options.get("json_response") else "false",
    }
    security: TransportSecuritySettings | None = options.get("transport_security")
    if security is None:
        return settings
    if not security.enable_dns_rebinding_protection:
        return {**settings, "allowed_hosts": ("*",), "allowed_origins": ("*",)}
    hosts = {"allowed_hosts": tuple(security.allowed_hosts), "allowed_origins": tuple(security.allowed_origins)}
    return settings | hosts


def _replace(kind: Any, *, ours: bool) -> None:
    own_app, own_manager = kind.streamable_http_app, kind.session_manager.fget

    def streamable_http_app(self: Any, **options: Any) -> Any:
        given = {key for key, value in options.items() if value is not None}
        path = options.get("streamable_http_path", "/mcp")
        _apps.pop(self, None)
        if given & _OTHER or path != "/mcp" or serving.within_server.get():
            return own_app(self, **options)
        serving.used[0] = True
        if not ours:
            return own_app(self, **options)
        app = _apps[self] = HttpApp(self, own_app(self, **options), settings=_settings_for(options))
        return app

    def session_manager(self: Any) -> Any:
        return _Manager(_apps[self], own_manager(self)) if self in _apps else own_manager(self)

    _patch.setattr(kind, "streamable_http_app", streamable_http_app)
    _patch.setattr(kind, "session_manager", property(session_manager))


class _Manager:
    """Replaces the SDK's session manager in a test: `run` starts the server with anyreplica.

    All other attributes are those of the SDK's session manager.

    Attributes:
        _server_instances: the open sessions by id. Tests count them, because each reply looks the same if a request
            opens a second session instead of using the first one.
    """

    def __init__(self, app: HttpApp, own: Any) -> None:
        self._app, self._own = app, own
        self._server_instances = app.sessions

    def run(self) -> AbstractAsyncContextManager[None]:
        """Return a context manager in which the server runs."""
        return self._app.lifespan(self._app)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)
