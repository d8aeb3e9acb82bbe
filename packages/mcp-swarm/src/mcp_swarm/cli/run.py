"""`mcp-swarm run`: one replica, or several on one port of this machine."""

import argparse
import importlib.util
import os
import secrets
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from mcp_swarm.app import App
from mcp_swarm.cli.app_of import app_of
from mcp_swarm.cli.main import app_option
from mcp_swarm.process import local_replicas
from mcp_swarm.process.exit_codes import EXIT_REFUSED
from mcp_swarm.process.listening import Server, refuse_taken
from mcp_swarm.process.replica import uvicorn_options
from mcp_swarm.process.start import refusing
from mcp_swarm.settings import Settings

_MOST = 64
"""Replicas on one machine."""


def main(arguments: Sequence[str]) -> int:
    """Run replicas until a signal ends them; returns the exit code, or raises StartupError if they can't start."""
    options = _parser().parse_args(arguments)
    if options.reload:
        settings = Settings.load()
        with refusing():
            folders = _folders(options.app, settings)
        print(f"One replica on {_base(settings)}/mcp, started anew when a file changes. Ctrl-C stops it.", flush=True)
        return serve(settings, options.app, folders)
    app = app_of(options.app, options.replicas or 1)
    if options.replicas is None:
        return serve(app.settings, app)
    # The replicas read their settings anew: how many they are, and the keys that they share.
    os.environ["MCP_REPLICAS"] = str(options.replicas)
    if app.settings.request_state_keys is None:
        os.environ["REQUEST_STATE_KEYS"] = secrets.token_hex(32)
    print(f"Starting {_count(options.replicas)} …", flush=True)
    return local_replicas.run(app.settings, options.app, options.replicas, lambda: _welcome(app, options.replicas))


def serve(settings: Settings, app: ASGIApp | str, watched: list[str] | None = None) -> int:
    """Serve an app by uvicorn until a signal ends it; returns the exit code, or raises StartupError.

    A change in a `watched` folder starts the app anew, which is named as `module:factory` then.
    """
    refuse_taken(settings)
    # uvicorn raises the signal that stopped it once more when it is done; a replica that drained has not failed.
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.signal(signal.SIGINT, lambda *_: None)
    options = uvicorn_options(settings, app)
    if watched:
        uvicorn.run(**options, reload=True, reload_dirs=watched)
        return 0
    server = Server(uvicorn.Config(**options))
    with suppress(SystemExit):  # uvicorn's, if another server took the port just now
        server.run()
    if settings.mcp_uds:  # before Python 3.13 the event loop leaves the file
        Path(settings.mcp_uds).unlink(missing_ok=True)
    return 0 if server.started else EXIT_REFUSED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mcp-swarm run",
        description="Run one replica of the MCP server, or several on one port of this machine.",
        epilog=f"Exit codes: 0 stopped; 2 wrong arguments; {EXIT_REFUSED} can't start (stderr says why).",
    )
    app_option(parser)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--replicas", type=_replicas, metavar="N", help="run N replicas on one port of this machine")
    how.add_argument("--reload", action="store_true", help="run one replica, and start it anew when a file changes")
    return parser


def _replicas(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if not 1 <= number <= _MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {_MOST}")
    return number


def _folders(app: str, settings: Settings) -> list[str]:
    """The folders of the app and of all packages and modules that it serves."""
    found = []
    for package in dict.fromkeys((app.partition(":")[0].partition(".")[0], *settings.mcp_components)):
        spec = importlib.util.find_spec(package)
        if spec and spec.submodule_search_locations:
            found += spec.submodule_search_locations
        elif spec and spec.origin:
            found.append(str(Path(spec.origin).parent))
    return found


def _count(replicas: int) -> str:
    return "1 replica" if replicas == 1 else f"{replicas} replicas"


def _base(settings: Settings) -> str:
    host = "localhost" if settings.mcp_host in ("127.0.0.1", "0.0.0.0", "::", "::1") else settings.mcp_host  # noqa: S104
    return f"http://{host}:{settings.mcp_port}"


def _welcome(app: App, replicas: int) -> None:
    settings, base = app.settings, _base(app.settings)
    header = ', "headers": {"Authorization": "Bearer <AUTH_TOKEN>"}' if settings.auth_enabled else ""
    catalogue = str(app.catalogue).replace("\n", "\n  ")
    print(
        f"""
  {settings.mcp_name}: {_count(replicas)} on {base}/mcp   (a page for people: {base}/)

  For an MCP client's configuration:
  {{"mcpServers": {{"{settings.mcp_name}": {{"type": "http", "url": "{base}/mcp"{header}}}}}}}

  {catalogue}

  Ctrl-C stops them.
""",
        flush=True,
    )
