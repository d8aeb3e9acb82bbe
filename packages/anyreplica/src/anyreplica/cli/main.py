"""The entry point of the command line; it selects the command and handles errors for all commands."""

import argparse
import importlib
import os
import select
import sys
from collections.abc import Sequence
from pathlib import Path

from anyreplica._version import __version__
from anyreplica.process.lifecycle import Terminated, end_at_sigterm
from anyreplica.process.start import EXIT_REFUSED, check_versions
from anyreplica.settings import of_fastmcp
from anyreplica.settings.errors import StartupError

APP = "server.server:create_app"
"""The default server: the app of the template."""

EXIT_NO_READER = 141
"""Exit code if the reader of the output has ended: 128 and the number of SIGPIPE, as in a shell."""

_CONFIG = "fastmcp.json"
"""The default server in a folder without the template, as for `fastmcp run`."""

_COMMANDS = {
    "run": "run one replica, or several replicas on one port (the default command)",
    "check": "check settings and components without serving",
    "init": "write the files that deploy an existing server to a Docker Swarm",
    "deploy": "deploy stack.yml to a Docker Swarm and wait until it serves",
    "worker": "run a worker, which runs the jobs from JOBS_URL",
    "autoscale": "let the number of replicas in a Swarm follow the load",
    "install": "add a running server to a client, such as Claude Code or Cursor",
    "load": "load test a running server and print a report",
    "keys": "create and check API keys",
    "audit": "verify an audit log",
}
_OF_AN_APP = ("run", "check", "worker")
_SERVING = ("run", "worker")


def main(arguments: Sequence[str] | None = None, *, app: str = APP) -> int:
    """Run a command line and return the exit code.

    Args:
        arguments: The command and its options; None: the arguments of the process. The default command is `run`.
        app: The server of commands that name none, such as `module:function`.

    Example:

        import sys

        from anyreplica import main

        if __name__ == "__main__":
            sys.exit(main(app="server.server:create_app"))
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in ("-h", "--help", "--version"):
        _parser().parse_args(given)
    if given and given[0] not in _COMMANDS and not given[0].startswith("-"):
        _parser().parse_args(given)  # Prints the error for an unknown command and exits.
    command = given.pop(0) if given and given[0] in _COMMANDS else "run"
    try:
        _prepare(command)
        module = importlib.import_module(f"anyreplica.cli.{command}")
        if command not in _OF_AN_APP:
            code = int(module.main(given))
        else:
            # Like `python -m`: the app's module may be in the working directory.
            sys.path[:0] = [] if os.getcwd() in sys.path else [os.getcwd()]  # noqa: PTH109
            code = int(module.main(given, default=_default(app)))
        if sys.stdout is not None:  # `>&-` closes it
            sys.stdout.flush()
        return code
    except StartupError as error:
        print(error, file=sys.stderr)
        return EXIT_REFUSED
    except BrokenPipeError:
        if not _has_no_reader():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python writes what is left when it ends
        return EXIT_NO_READER
    except Terminated:
        return 0
    except KeyboardInterrupt:
        return 130


def _prepare(command: str) -> None:
    """Do what must come before the import of a command."""
    if command in _SERVING:
        end_at_sigterm()
    if command in _OF_AN_APP:  # what is wrong here may make the import fail
        check_versions()
        of_fastmcp.load()


def _has_no_reader() -> bool:
    """Return whether the program that reads the standard output has ended, as in `anyreplica check | head -1`."""
    output = select.poll()
    output.register(sys.stdout, 0)  # errors are reported in any case
    return bool(output.poll(0))


def _default(app: str) -> str:
    if app == APP and Path(_CONFIG).exists() and not Path("server/server.py").exists():
        return _CONFIG
    return app


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="anyreplica",
        description="""\
Run and operate an MCP server as identical replicas. Without a COMMAND,
`anyreplica` runs one replica. Settings come from environment variables and from
secret files.""",
        epilog=f"""\
examples:
  anyreplica check
  anyreplica run --replicas 3
  anyreplica run server.py:mcp --replicas 3
  anyreplica load --requests 1000

Each command has its own help: anyreplica COMMAND --help

exit codes:
  0    success
  1    the command failed
  2    wrong arguments
  {EXIT_REFUSED}    the server can't start; stderr names the reason
  130  Ctrl-C
  {EXIT_NO_READER}  the reader of the output has ended
""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__, help="show the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    for name, meaning in _COMMANDS.items():
        commands.add_parser(name, help=meaning)
    return parser


def server_argument(parser: argparse.ArgumentParser, default: str) -> None:
    """Add the argument SERVER to a command."""
    parser.add_argument(
        "server",
        nargs="?",
        default=default,
        metavar="SERVER",
        help=f"""a Python file or a module with a server (of FastMCP or of the MCP SDK) or a function that
        returns one (server.py, server.py:mcp, package.module:factory), a fastmcp.json, a JSON file with mcpServers, or
        the URL of an MCP server (default: {default})""",
    )


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the arguments of a command, and those after `--`, which belong to the server's own code."""
    given = list(arguments)
    if "--" not in given:
        return given, []
    at = given.index("--")
    return given[:at], given[at + 1 :]
