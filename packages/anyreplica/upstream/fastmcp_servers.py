"""Replace what tests use to connect to a FastMCP server: `Client(server)` in memory, and `server.http_app()`."""

import functools
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import fastmcp
import pytest
from fastmcp import FastMCP
from fastmcp.client import Client
from fastmcp.client.transports import FastMCPTransport, StreamableHttpTransport

from anyreplica.testing import Served
from upstream import serving
from upstream.http_app import HttpApp

_connect_in_memory = FastMCPTransport.connect_session
_http_app = FastMCP.http_app
_init = Client.__init__
_patch = pytest.MonkeyPatch()


def serve(*, ours: bool, sessions: bool) -> None:
    """Serve FastMCP servers with anyreplica, or with FastMCP's HTTP app.

    Args:
        ours: whether anyreplica serves them.
        sessions: whether clients use the handshake protocol, and whether FastMCP's HTTP app has sessions.
    """
    if ours:
        _connect_over_http(serving.by_anyreplica)
        _replace_http_app(_app_of_anyreplica)
    else:
        stateless = {} if sessions else {"stateless_http": True}
        _connect_over_http(lambda server: serving.by_uvicorn(_http_app(server, stateless_http=not sessions)))
        _replace_http_app(lambda server, path, options: _http_app(server, path, **stateless | options))
    if sessions:
        _use_the_handshake_protocol()


def _app_of_anyreplica(server: Any, path: str | None, options: dict[str, Any]) -> HttpApp:
    own = _http_app(server, path, **options)
    return HttpApp(server, own, options.get("middleware", ()), _settings_for(options))


def _settings_for(options: Mapping[str, Any]) -> dict[str, object]:
    """Return our settings that do what options of `http_app()` do."""
    stateless = options.get("stateless_http", fastmcp.settings.stateless_http)
    settings: dict[str, object] = {"handshake_sessions": "off" if stateless else "full"}
    if options.get("json_response") is False:
        settings["json_response"] = "false"
    if options.get("host_origin_protection") is False:
        return {**settings, "allowed_hosts": ("*",), "allowed_origins": ("*",)}
    hosts = {name: tuple(options[name]) for name in ("allowed_hosts", "allowed_origins") if name in options}
    return settings | hosts


def _connect_over_http(served: Callable[[Any], AbstractAsyncContextManager[Served]]) -> None:
    """Connect clients of a server object over HTTP. `served` serves the server."""

    @asynccontextmanager
    async def connect_session(self: FastMCPTransport, **options: Any) -> AsyncIterator[Any]:
        server = self.server
        if not isinstance(server, FastMCP) or serving.within_server.get():
            async with _connect_in_memory(self, **options) as session:
                yield session
            return
        running = serving.running(server, lambda: served(server))
        found = await running.__aenter__()
        try:
            transport = StreamableHttpTransport(f"{found.url}/mcp")
            self.get_session_id = transport.get_session_id  # type: ignore[method-assign]
            async with transport.connect_session(**options) as session:
                yield session
        finally:
            with anyio.CancelScope(shield=True):
                await running.__aexit__(None, None, None)

    _patch.setattr(FastMCPTransport, "connect_session", connect_session)


def _replace_http_app(app_of: Callable[[Any, str | None, dict[str, Any]], Any]) -> None:
    """Replace the result of `http_app`, unless a test asks for a transport or a path that only FastMCP has."""

    def http_app(self: FastMCP[Any], path: str | None = None, **options: Any) -> Any:
        options = {key: value for key, value in options.items() if value is not None}
        streamable = options.get("transport", "http") in ("http", "streamable-http")
        if not streamable or options.get("event_store") or path not in (None, "/mcp", "/mcp/"):
            return _http_app(self, path, **options)
        if serving.within_server.get():
            return _http_app(self, path, **options)
        serving.used[0] = True
        return app_of(self, path, options)

    _patch.setattr(FastMCP, "http_app", http_app)


def _use_the_handshake_protocol() -> None:
    """Let clients that choose no protocol use the handshake protocol."""

    @functools.wraps(_init)
    def init(self: Any, *arguments: Any, **options: Any) -> None:
        options.setdefault("mode", "legacy")
        _init(self, *arguments, **options)

    _patch.setattr(Client, "__init__", init)
