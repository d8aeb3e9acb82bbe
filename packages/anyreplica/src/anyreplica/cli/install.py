"""The command `anyreplica install`, which adds a running server to a client on this machine."""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from anyreplica.routes.clients import TOKEN, ClientSetup, clients
from anyreplica.settings.errors import StartupError

_KEYS = [client.key for client in clients("", "")]

_WITH_HEADER = ("claude-code", "gemini")
"""Clients whose command has the header as a word of its own, in which a shell replaces a variable."""


def main(arguments: Sequence[str]) -> int:
    """Add the server to the client and return the exit code."""
    given = _parser().parse_args(arguments)
    try:
        shown = _client(given, shown=True)
        client = shown if given.print else _client(given, shown=False)
        if given.print:
            print(shown.text if shown.command else f"{shown.place}\n\n{shown.text}")
            if shown.link and not given.token_env:
                print(f"\nLink: {shown.link}")
        elif client.command:
            _run(client)
        else:
            _write(client, shown.text)
    except (StartupError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _client(given: argparse.Namespace, *, shown: bool) -> ClientSetup:
    """Return the chosen client. If it is shown, it names the variable of the token, or has a placeholder."""
    token = os.environ.get(given.token_env or "", "")
    if given.token_env and not token and not shown:
        raise StartupError(f"{given.token_env} is not set; export it, for example: export {given.token_env}=…")
    if given.token_env and shown:
        token = f"${given.token_env}" if given.client in _WITH_HEADER else TOKEN
    name = given.name or urlsplit(given.url).hostname or "mcp"
    found = {client.key: client for client in clients(name, given.url, token, given.token_env or "")}
    return found[given.client]


def _run(client: ClientSetup) -> None:
    """Run the command of a client.

    Raises:
        StartupError: The client is not installed, or it has refused.
    """
    program = client.command[0]
    if shutil.which(program) is None:
        raise StartupError(f"{program} is not on PATH; `anyreplica install {client.key} --print` shows its command")
    done = subprocess.run(client.command, check=False)
    if done.returncode:
        raise StartupError(f"{program} ended with exit code {done.returncode}")
    print(f"Added to {client.name}.")


def _write(client: ClientSetup, shown: str) -> None:
    """Add the server to the file of a client. The other servers in the file stay.

    Args:
        client: The client.
        shown: The content of the file without a token, for an error message.

    Raises:
        StartupError: The file is no plain JSON, or is not what the client writes.
    """
    path = (Path.home() / client.file).resolve()
    content: Any = {}
    if path.exists():
        try:
            content = json.loads(path.read_text() or "{}")
        except ValueError as error:  # also for text that is not UTF-8
            raise StartupError(f"{path}: not plain JSON ({error}); add this by hand:\n{shown}") from None
    servers = content.setdefault(client.servers, {}) if isinstance(content, dict) else None
    if not isinstance(servers, dict):
        raise StartupError(f"{path}: {client.servers} is not an object; correct the file")
    if servers.get(client.server) == client.entry:
        print(f"{path} has {client.server} already.")
        return
    how = "Replaced" if client.server in servers else "Added"
    servers[client.server] = client.entry
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    try:
        new.touch(mode=0o600)  # the file may have tokens
        new.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
        if path.exists():
            shutil.copymode(path, new)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    print(f"{how} {client.server} in {path}. Restart {client.name}, or reload its servers.")


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise argparse.ArgumentTypeError(f"{text!r}: write the URL of the endpoint, like https://mcp.example.com/mcp")
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="anyreplica install",
        description="""\
Add a running server to a client on this machine. The command runs the client's
own command, or edits the client's file. The page of the server shows the same
commands, files and links.""",
        epilog="""\
examples:
  anyreplica install claude-code
  anyreplica install cursor --url https://mcp.example.com/mcp --name weather
  anyreplica install codex --token-env MCP_TOKEN
  anyreplica install vscode --print

exit codes:
  0  success
  1  the client is not installed, or its file cannot be changed
  2  wrong arguments
""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("client", choices=_KEYS, metavar="CLIENT", help=", ".join(_KEYS))
    parser.add_argument(
        "--url",
        type=_url,
        default="http://localhost:8150/mcp",
        help="URL of the MCP endpoint (default: http://localhost:8150/mcp)",
    )
    parser.add_argument("--name", help="name of the server in the client (default: the host of the URL)")
    parser.add_argument(
        "--token-env",
        metavar="VARIABLE",
        help="environment variable with the key or token of the server; the client stores its value (Codex: its name)",
    )
    parser.add_argument("--print", action="store_true", help="show what would be done, and the link of the client")
    return parser
