"""The command line: which command is asked for, and what all of them share."""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from mcp_swarm._version import __version__
from mcp_swarm.process.exit_codes import EXIT_REFUSED
from mcp_swarm.settings.errors import StartupError

APP = "server.server:create_app"
"""The factory of the app, where none is named: the template's."""

_COMMANDS = {
    "run": "run one replica, or several on one port of this machine",
    "check": "start without serving: check settings and components",
    "worker": "run a worker, which does the jobs of JOBS_URL",
    "load": "load a running deployment and report",
    "keys": "make and check API keys",
    "audit": "verify an audit log",
}
_OF_AN_APP = ("run", "check", "worker")


def main(arguments: Sequence[str] | None = None, *, app: str = APP) -> int:
    """Run the command line; returns the exit code.

    Args:
        arguments: a command and its options; None takes those of the process. Without a command: `run`.
        app: the function that makes the app, as `module:function`, if `--app` names none.

    Example:

        import sys

        from mcp_swarm import main

        if __name__ == "__main__":
            sys.exit(main(app="server.server:create_app"))
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in ("-h", "--help", "--version"):
        _parser().parse_args(given)
    command = given.pop(0) if given and given[0] in _COMMANDS else "run"
    if given and not given[0].startswith("-") and command == "run":
        _parser().parse_args(given)  # says that there is no such command
    if command in _OF_AN_APP:
        sys.path[:0] = [] if os.getcwd() in sys.path else [os.getcwd()]  # noqa: PTH109  # as python -m has it
        if not any(each.startswith("--app") for each in given):
            given += ["--app", app]
    try:
        return int(importlib.import_module(f"mcp_swarm.cli.{command}").main(given))
    except StartupError as error:
        print(error, file=sys.stderr)
        return EXIT_REFUSED
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mcp-swarm",
        description="MCP servers as identical replicas. `mcp-swarm COMMAND --help` describes each command. Without a "
        "command it is `run`. Settings come from environment variables and from secret files.",
        epilog=f"Exit codes: 0 done; 1 failed; 2 wrong arguments; {EXIT_REFUSED} the server can't start.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(metavar="COMMAND")
    for name, meaning in _COMMANDS.items():
        commands.add_parser(name, help=meaning)
    return parser


def app_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the app's factory."""
    parser.add_argument(
        "--app", default=APP, metavar="MODULE:FUNCTION", help="the function that makes the app (default: %(default)s)"
    )
