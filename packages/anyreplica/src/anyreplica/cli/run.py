"""The command `anyreplica run`: one replica, of one process or several, or several replicas on one port."""

import argparse
import asyncio
import importlib.util
import logging
import os
import secrets
import signal
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import uvicorn
from fastmcp import FastMCP
from starlette.types import ASGIApp

from anyreplica.all_settings import Settings
from anyreplica.app import App
from anyreplica.cli.main import server_argument, split
from anyreplica.cli.source import (
    FACTORY,
    app_of,
    check_files_and_urls,
    configured,
    create_worker,
    folder_of,
    for_children,
    warn,
)
from anyreplica.features.jobs.server_tasks import task_tools
from anyreplica.mcp.catalogue import title_of
from anyreplica.mcp.compat import mounts
from anyreplica.mcp.compat.sdk_server import SdkServer
from anyreplica.mcp.server_setup import own_work
from anyreplica.process import local_redis, logs, supervisor
from anyreplica.process.listening import Server, authority, hosts, refuse_used_port
from anyreplica.process.replica import replica_name, uvicorn_options
from anyreplica.process.start import EXIT_REFUSED, refusing
from anyreplica.settings.errors import StartupError

logger = logging.getLogger(__name__)

_MAX_REPLICAS = 64
"""Maximum number of replicas on one machine, and of processes of a replica."""


def main(arguments: Sequence[str], *, default: str) -> int:
    """Run replicas until a signal stops them and return the exit code.

    Raises:
        StartupError: The replicas can't start; the message names the reason.
    """
    given, own = split(arguments)
    options = _parser(default).parse_args(given)
    for_children(options.server, own)
    if options.port is not None:
        os.environ["MCP_PORT"] = str(options.port)
    if options.workers is not None:
        os.environ["WORKERS"] = str(options.workers)
    if options.reload:
        return _reload(options.server)
    workers = next((value for name, value in os.environ.items() if name.upper() == "WORKERS"), "")
    if workers not in ("", "1"):
        if options.replicas is not None:
            raise StartupError(f"--replicas and WORKERS={workers} exclude each other; remove one of them")
        return _serve_processes(options.server)
    app = app_of(options.server, own)
    if app.settings.workers > 1:
        raise StartupError(
            f"WORKERS={app.settings.workers}: set this variable in the environment; a secret or code cannot set it"
        )
    if options.replicas is None:
        return serve(app.settings, app)
    return _serve_replicas(app, options.replicas, use_redis=not options.no_redis)


def serve(settings: Settings, app: ASGIApp | str, watched: list[str] | None = None) -> int:
    """Serve an app with uvicorn until a signal stops it and return the exit code.

    Args:
        settings: The settings of the replica or worker.
        app: The app; with `watched`, its factory as `module:function`.
        watched: Folders to watch; a change restarts the app.

    Raises:
        StartupError: The port is taken.
    """
    refuse_used_port(settings)
    # After a shutdown by signal, uvicorn raises the same signal again. The handlers below ignore it, because a replica
    # that has drained has not failed.
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.signal(signal.SIGINT, lambda *_: None)
    options = uvicorn_options(settings, app)
    if watched:
        # uvicorn opens one socket here: with `::`, it serves IPv4, too.
        uvicorn.run(**{**options, "host": hosts(settings)[-1]}, reload=True, reload_dirs=watched)
        return 0
    server = Server(uvicorn.Config(**options))
    with suppress(SystemExit):  # uvicorn exits if another server has taken the port in the last moment.
        server.run()
    if settings.mcp_uds:  # Before Python 3.13, the event loop does not delete the socket's file.
        Path(settings.mcp_uds).unlink(missing_ok=True)
    return 0 if server.started or server.stops_start else EXIT_REFUSED


def _serve_processes(server: str) -> int:
    """Run one replica that has several processes, and return the exit code.

    This process does not load the server, because the new processes are copies of this one.
    """
    with refusing():
        settings = _settings(server)
    warn(settings)
    logs.configure(settings, replica_name(settings))
    _share_keys(settings)
    ready = partial(logger.info, "%s processes serve as one replica", settings.workers)
    return supervisor.run_processes(settings, FACTORY, ready)


def _share_keys(settings: Settings) -> None:
    """Give all processes that this one starts the same keys for request states, if the operator has set none."""
    if settings.request_state_keys is None:
        os.environ["REQUEST_STATE_KEYS"] = secrets.token_hex(32)


def _serve_replicas(app: App, replicas: int, *, use_redis: bool) -> int:
    """Serve several replicas and return the exit code."""
    settings = app.settings
    check_files_and_urls(app)  # otherwise each replica would find the same fault
    # The replicas read their settings from the environment: the number of replicas, and the keys that they share.
    os.environ["MCP_REPLICAS"] = str(replicas)
    _share_keys(settings)
    print(f"Starting {_count(replicas)} …", flush=True)
    if early := _lists_early(app.mcp):
        with own_work():
            asyncio.run(app.catalogue.read(app.mcp))
    jobs = bool(app.components.jobs or task_tools(app.mcp))
    missing = local_redis.missing_urls(settings, jobs=jobs) if use_redis else []
    if "REDIS_URL" not in missing:
        for feature in app.features:
            feature.check_server(app.mcp, app.components, replicas)
    redis = local_redis.running(missing) if missing else None
    worker = create_worker if "JOBS_URL" in missing else None
    shared = not settings.jobs_in_process or worker is not None
    welcome = partial(_welcome, app, replicas, jobs_shared=shared, complete=early)
    return supervisor.run(settings, FACTORY, replicas, welcome, redis, worker)


def _parser(default: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="anyreplica run",
        description="""\
Run one replica of the MCP server, or several replicas on one port of this
machine. SIGTERM or Ctrl-C stops the replicas after they have drained.""",
        epilog=f"""\
examples:
  anyreplica run
  anyreplica run --workers 2
  anyreplica run --replicas 3
  anyreplica run server.py:mcp --replicas 3
  anyreplica run server.py -- --an-option-of-the-server
  anyreplica run --reload --port 9000

exit codes:
  0  stopped by a signal
  2  wrong arguments
  {EXIT_REFUSED}  the server can't start; stderr names the reason
""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    server_argument(parser, default)
    parser.add_argument("--port", type=_port, metavar="PORT", help="port to listen on (default: MCP_PORT, or 8150)")
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--replicas",
        type=_replicas,
        metavar="N",
        help=f"run N replicas (1 to {_MAX_REPLICAS}) on one port of this machine",
    )
    how.add_argument(
        "--workers",
        type=_replicas,
        metavar="N",
        help=f"run one replica with N processes (1 to {_MAX_REPLICAS}), each on one core (default: WORKERS, or 1)",
    )
    how.add_argument("--reload", action="store_true", help="run one replica and restart it when a file changes")
    parser.add_argument(
        "--no-redis",
        action="store_true",
        help="with --replicas: start no Redis and no worker, even if REDIS_URL or JOBS_URL is not set",
    )
    return parser


def _replicas(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if not 1 <= number <= _MAX_REPLICAS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {_MAX_REPLICAS}")
    return number


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: write a number from 1 to 65535")
    return int(text)


def _reload(server: str) -> int:
    """Serve one replica, in a process that starts again when a file changes.

    This process does not load the server, so a server with an error can be mended while the command runs.
    """
    os.environ["WORKERS"] = "1"  # the process that watches the files starts one process
    with refusing():
        settings = _settings(server)
        folders = _folders(server, settings)
    print(
        f"One replica on {_base(settings)}/mcp; it restarts when a file changes. Ctrl-C stops the replica.", flush=True
    )
    return serve(settings, FACTORY, folders)


def _settings(server: str) -> Settings:
    """Return the settings without loading the server. A `fastmcp.json` may have some of them."""
    if server.endswith(".json"):
        configured(Path(server))
    return Settings.load()


def _folders(server: str, settings: Settings) -> list[str]:
    """Return the folders of the server's code and of all component packs."""
    found = [folder for folder in [folder_of(server)] if folder]
    for package in dict.fromkeys(settings.mcp_components):
        spec = importlib.util.find_spec(package)
        if spec and spec.submodule_search_locations:
            found += spec.submodule_search_locations
        elif spec and spec.origin:
            found.append(str(Path(spec.origin).parent))
    return found


def _count(replicas: int) -> str:
    return "1 replica" if replicas == 1 else f"{replicas} replicas"


def _base(settings: Settings) -> str:
    host = "localhost" if settings.mcp_host in ("127.0.0.1", "0.0.0.0", "::") else settings.mcp_host  # noqa: S104
    return f"http://{authority(host, settings.mcp_port)}"


def _lists_early(mcp: FastMCP) -> bool:
    """Return whether a server can list its components before it starts.

    A provider may ask other servers for them.
    """
    return isinstance(mcp, SdkServer) or mounts.are_lists_steady(mcp)


def _welcome(app: App, replicas: int, *, jobs_shared: bool, complete: bool) -> None:
    settings, base = app.settings, _base(app.settings)
    header = ', "headers": {"Authorization": "Bearer <AUTH_TOKEN>"}' if settings.auth_enabled else ""
    offers_jobs = jobs_shared or replicas == 1
    lines = app.catalogue.lines(offers_jobs=offers_jobs)
    if app.components.jobs and not offers_jobs:
        lines.append(f"jobs       not offered: {replicas} replicas need a shared queue; set JOBS_URL=redis://…")
    if not complete:
        lines = [
            *(lines if any(entries for _, entries in app.catalogue.kinds) else ()),
            "The status page lists the rest.",
        ]
    catalogue = "\n  ".join(lines)
    print(
        f"""
  {title_of(app.settings.mcp_name, app.mcp)}: {_count(replicas)} on {base}{settings.mcp_path}   (status page: {base}/)

  Configuration for an MCP client:
  {{"mcpServers": {{"{settings.mcp_name}": {{"type": "http", "url": "{base}{settings.mcp_path}"{header}}}}}}}

  {catalogue}

  Ctrl-C stops the replicas.
""",
        flush=True,
    )
