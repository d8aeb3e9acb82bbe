"""`python -m server`: run a replica, several of them, a worker, or check that one would start."""

import argparse
import asyncio
import importlib
import importlib.util
import os
import secrets
import signal
import sys
from pathlib import Path

import uvicorn

from server import __version__, config, entrance, local, logs, worker
from server.access import command as access
from server.asgi import run as asgi
from server.audit import command as audit
from server.audit import trail
from server.config import Settings
from server.errors import StartupError
from server.listening import Server, refuse_taken
from server.log_buffer import LogBuffer
from server.mcp_app import McpApp, build, offer_jobs
from server.replica import APP, EXIT_REFUSED, name_of, uvicorn_options
from server.shared.redis import connect
from server.start import refusing, rehearse
from server.traces import tracing
from server.work.desk import Desk

_TOOLS = {"keys": access.main, "audit": audit.main}
"""Commands of their own, which run no server."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    if given and given[0] in _TOOLS:
        return _TOOLS[given[0]](given[1:])
    options = _parser().parse_args(given)
    try:
        with refusing():
            settings = config.load()
            buffer = logs.configure(
                _quiet(settings) if options.check or options.repeatable else settings, name_of(settings)
            )
        for sentence in (*config.misspelt(os.environ), *config.doubts(settings, options.replicas or 1)):
            print(f"Warning: {sentence}", file=sys.stderr)
        if options.reload:
            print(
                f"One replica on {_base(settings)}/mcp, started anew when a file changes. Ctrl-C stops it.", flush=True
            )
            return _serve(settings, _folders(settings))
        if options.command == "worker":
            return _work(settings, check=options.check)
        with refusing():
            mcp_app = _built(settings)
        if options.repeatable:
            return _repeatable(settings, mcp_app)
        if options.check:
            return _check(settings, mcp_app, buffer)
        if options.replicas is None:
            return _serve(settings)
        _introduce(options.replicas, settings)
        print(f"Starting {_count(options.replicas)} …", flush=True)
        return local.run(settings, options.replicas, lambda: _welcome(settings, options.replicas, mcp_app))
    except StartupError as error:
        print(error, file=sys.stderr)
        return EXIT_REFUSED
    except KeyboardInterrupt:
        return 130


def _built(settings: Settings) -> McpApp:
    """What is served, after a look at all that the settings name.

    Raises:
        StartupError: something of it can't be used.
    """
    mcp_app = build(settings)
    connect(settings)  # which only looks at the URL
    asgi.check(settings)
    entrance.check(settings)
    trail.check(settings)
    tracing.check(settings)
    return mcp_app


def _check(settings: Settings, mcp_app: McpApp, buffer: LogBuffer) -> int:
    if not rehearse(settings, mcp_app, buffer):
        return EXIT_REFUSED
    print(f"{settings.mcp_name} {__version__}: settings and components are fine.\n{mcp_app.catalogue}")
    return 0


def _repeatable(settings: Settings, mcp_app: McpApp) -> int:
    """Print the names of the tools that say of themselves that calling them twice does no harm."""
    offer_jobs(mcp_app.mcp, Desk(mcp_app.jobs, settings, "", lambda: None), settings)
    tools = asyncio.run(mcp_app.mcp.list_tools(run_middleware=False))
    hints = ((tool.name, tool.annotations) for tool in tools)
    print(" ".join(sorted(name for name, hint in hints if hint and (hint.read_only_hint or hint.idempotent_hint))))
    return 0


def _quiet(settings: Settings) -> Settings:
    """The settings for a check, which logs what is wrong and not what is done."""
    return settings.model_copy(update={"log_level": "WARNING"}) if settings.log_level == "INFO" else settings


def _work(settings: Settings, *, check: bool) -> int:
    with refusing():
        tracing.check(settings)
        jobs = ", ".join(sorted(worker.jobs_of(settings)))
    if check:
        print(f"{settings.mcp_name} {__version__}: settings and jobs are fine.\njobs       {jobs}")
        return 0
    print(f"A worker for {jobs}; its probes are on port {settings.mcp_port}.", flush=True)
    return _serve(settings, app=worker.APP)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m server",
        description="Run one replica of the MCP server. Settings come from the environment or from secret files; "
        "README lists them.",
        epilog="python -m server keys --help: make and check API keys; python -m server audit --help: verify the audit "
        f"log. Exit codes: 0 done; 2 wrong arguments; {EXIT_REFUSED} refused to start (the reason is on stderr).",
    )
    parser.add_argument(
        "command", nargs="?", choices=["worker"], help="run a worker, which does the jobs of JOBS_URL, and no replica"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--check",
        action="store_true",
        help="start without serving: check settings and components, say what is served, exit",
    )
    what.add_argument(
        "--repeatable",
        action="store_true",
        help="print the names of the tools that a proxy may call twice (readOnlyHint, idempotentHint), and exit",
    )
    what.add_argument("--replicas", type=_positive, metavar="N", help="run N replicas on one port of this machine")
    what.add_argument(
        "--reload", action="store_true", help="run one replica, started anew when a file of what it serves changes"
    )
    parser.add_argument("--version", action="version", version=__version__)
    return parser


def _positive(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if not 1 <= number <= 64:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 64")
    return number


def _serve(settings: Settings, watched: list[str] | None = None, app: str = APP) -> int:
    refuse_taken(settings)
    if app == APP and settings.asgi_server in asgi.SERVERS:
        if watched:
            raise StartupError(f"ASGI_SERVER={settings.asgi_server}: only uvicorn starts anew; unset it, or --reload")
        return asgi.run(settings, importlib.import_module("server.server").app)
    # uvicorn raises the signal that stopped it once more when it is done; a replica that drained has not failed.
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.signal(signal.SIGINT, lambda *_: None)
    options = uvicorn_options(settings, app)
    if watched:
        uvicorn.run(**options, reload=True, reload_dirs=watched)
        return 0
    server = Server(uvicorn.Config(**options))
    server.run()
    return 0 if server.started else EXIT_REFUSED


def _introduce(replicas: int, settings: Settings) -> None:
    """Tell the replicas, which read their settings anew, how many they are, and the keys that they share."""
    os.environ["MCP_REPLICAS"] = str(replicas)
    if settings.request_state_keys is None:
        os.environ["REQUEST_STATE_KEYS"] = secrets.token_hex(32)


def _folders(settings: Settings) -> list[str]:
    """The folders of the server and of all packages and modules that it serves."""
    found = ["server"]
    for package in settings.mcp_components:
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


def _welcome(settings: Settings, replicas: int, mcp_app: McpApp) -> None:
    base = _base(settings)
    header = ', "headers": {"Authorization": "Bearer <AUTH_TOKEN>"}' if settings.auth_enabled else ""
    catalogue = str(mcp_app.catalogue).replace("\n", "\n  ")
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


if __name__ == "__main__":
    sys.exit(main())
