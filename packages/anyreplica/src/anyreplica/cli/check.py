"""The command `anyreplica check`, which finds every problem that a start would find, without serving."""

import argparse
import asyncio
import atexit
import gc
import inspect
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext

import mcp_types
import uvicorn
from fastmcp import FastMCP
from fastmcp.tools import FunctionTool, Tool

from anyreplica._version import __version__
from anyreplica.app import App
from anyreplica.cli.main import server_argument, split
from anyreplica.cli.source import app_of, check_files_and_urls
from anyreplica.components.containment import plain_function
from anyreplica.features.jobs.server_tasks import task_tools
from anyreplica.features.jobs.worker_app import check as check_worker
from anyreplica.features.server_card.feature import registry_entry
from anyreplica.mcp.catalogue import title_of
from anyreplica.mcp.compat import mounts, sdk
from anyreplica.mcp.compat.sdk_server import SdkServer
from anyreplica.mcp.components import cannot_ask
from anyreplica.process.lifecycle import Lifecycle
from anyreplica.process.replica import uvicorn_options
from anyreplica.process.start import EXIT_REFUSED, StartReport, refusing
from anyreplica.settings import of_fastmcp

_MOST_NOTES = 20
"""Maximum number of notes about tools."""


def main(arguments: Sequence[str], *, default: str) -> int:
    """Run the check and return the exit code.

    Raises:
        StartupError: The server could not start; the message names the reason.
    """
    atexit.register(gc.freeze)  # otherwise Python collects garbage once more at its end, which takes 0.3 s (measured)
    given, own = split(arguments)
    options = _parser(default).parse_args(given)
    if os.environ.get("LOG_LEVEL", of_fastmcp.values().get("log_level", "info")).upper() == "INFO":
        os.environ["LOG_LEVEL"] = "WARNING"  # The output is for problems; the log of a normal start is noise here.
    app = app_of(options.server, own)
    if options.repeatable:
        return _repeatable(app)
    if options.registry:
        print(json.dumps(registry_entry(app.settings, app.mcp), indent=2, ensure_ascii=False))
        return 0
    name = f"{title_of(app.settings.mcp_name, app.mcp)} (anyreplica {__version__})"
    if options.worker:
        tasks = task_tools(app.mcp)
        with refusing():
            check_worker(app.server, app.settings, tasks)
        print(f"{name}: settings and jobs are valid.\njobs       {', '.join([*sorted(app.components.jobs), *tasks])}")
        return 0
    check_files_and_urls(app)
    with refusing():
        loop = uvicorn.Config(**uvicorn_options(app.settings, app)).get_loop_factory()
        with asyncio.Runner(loop_factory=loop) as runner:
            if not runner.run(_starts(app)):
                return EXIT_REFUSED
    print(f"{name}: settings and components are valid.\n{app.catalogue}")
    if reason := cannot_ask(app.mcp, app.settings):
        print(reason)
    if not isinstance(app.mcp, SdkServer) and mounts.are_lists_steady(app.mcp):
        found = list(notes(asyncio.run(app.mcp.list_tools(run_middleware=False))))
        for note in found[:_MOST_NOTES]:
            print(note, file=sys.stderr)
        if len(found) > _MOST_NOTES:
            print(f"… and {len(found) - _MOST_NOTES} more notes", file=sys.stderr)
    return 0


def notes(tools: Iterable[Tool]) -> Iterator[str]:
    """Yield a sentence for each tool that a model cannot understand, and for each argument without a type hint."""
    for tool in tools:
        if not tool.description:
            yield f"Note: the tool {tool.name!r} has no docstring, so models do not know what it does"
        if isinstance(tool, FunctionTool):
            hints = inspect.signature(plain_function(tool.fn)).parameters
            listed = tool.parameters.get("properties", {})
            for each in hints.values():
                if each.annotation is each.empty and each.name in listed:
                    yield f"Note: {each.name!r} of the tool {tool.name!r} has no type hint, so it accepts any value"


def _parser(default: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="anyreplica check",
        description="""\
Check settings and components: start a replica without serving, list its tools,
resources, prompts and jobs, and exit. The command opens no port.""",
        epilog=f"""\
examples:
  anyreplica check server.py:mcp
  AUTH_ENABLED=true SECRETS_DIR=secrets anyreplica check

exit codes:
  0  valid
  2  wrong arguments
  {EXIT_REFUSED}  the server can't start; stderr names the reason
""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    server_argument(parser, default)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--worker", action="store_true", help="check the settings and jobs of a worker, not of a replica")
    what.add_argument(
        "--repeatable",
        action="store_true",
        help="only print the names of the tools that a proxy may safely call twice (readOnlyHint or idempotentHint)",
    )
    what.add_argument(
        "--registry",
        action="store_true",
        help="only print the server.json of the server for the MCP registry (needs PUBLIC_URL)",
    )
    return parser


def _repeatable(app: App) -> int:
    """Print the names of the tools whose annotations say that a second call does no harm."""
    with refusing():
        for feature in app.features:
            feature.add_tools(app.mcp, app.components)
    hints = ((tool.name, tool.annotations) for tool in asyncio.run(_tools(app.mcp)))
    print(" ".join(sorted(name for name, hint in hints if hint and (hint.read_only_hint or hint.idempotent_hint))))
    return 0


async def _tools(mcp: FastMCP) -> Sequence[Tool | mcp_types.Tool]:
    if not isinstance(mcp, SdkServer):
        return await mcp.list_tools(run_middleware=False)
    async with sdk.low_level(mcp).lifespan(sdk.low_level(mcp)):  # its list may need what the lifespan opens
        return (await mcp.listed()).tools


async def _starts(app: App) -> bool:
    """Start a replica, stop it, and return whether it started.

    The replica opens no port, handles no signal, and writes nothing to the audit log. If the start fails, stderr names
    the reason.
    """
    composed = StartReport(app.compose(Lifecycle(app.settings.drain_seconds), nullcontext(), is_trial=True))
    config = uvicorn.Config(**uvicorn_options(app.settings, composed))
    config.load()  # This also imports the module of the HTTP protocol.
    lifespan = config.lifespan_class(config)
    await lifespan.startup()
    if lifespan.should_exit:
        return False
    await lifespan.shutdown()
    return True
