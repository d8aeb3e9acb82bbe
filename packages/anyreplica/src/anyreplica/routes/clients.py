"""How a user adds a server to common clients: with a command, or with an entry in a file.

The home page shows the commands and entries. `anyreplica install` runs or writes them.
"""

import base64
import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

_HEADER = re.compile(r"Authorization: Bearer (<token>|\$\w+)")

TOKEN = "<token>"  # noqa: S105
"""Stands for the token on the home page."""


@dataclass(frozen=True)
class ClientSetup:
    """A client, and how a user adds a server to it.

    Attributes:
        key: Its name on the command line.
        name: Its name for people.
        command: The command that adds the server. Empty: the server belongs into the file.
        file: The file with the client's servers, relative to the user's home.
        servers: The key in the file whose value has all servers.
        server: The name of the server.
        entry: The settings of the server in the file.
        link: A click on this link adds the server to the client. Empty: the client has no such links.
    """

    key: str
    name: str
    command: tuple[str, ...] = ()
    file: str = ""
    servers: str = "mcpServers"
    server: str = ""
    entry: Mapping[str, Any] = field(default_factory=dict)
    link: str = ""

    @property
    def place(self) -> str:
        """Where the text belongs: `shell`, or the file."""
        return "shell" if self.command else f"~/{self.file}"

    @property
    def text(self) -> str:
        """The command, or the content of a file that has only this server."""
        if self.command:
            return " ".join(map(_quoted, self.command))
        return json.dumps({self.servers: {self.server: self.entry}}, indent=2)


def clients(name: str, url: str, token: str = "", variable: str = "MCP_TOKEN") -> list[ClientSetup]:
    """Return all clients that we know.

    Args:
        name: The name of the server.
        url: The URL of its MCP endpoint.
        token: The token that clients send as `Authorization: Bearer TOKEN`. Empty: the server needs no token.
        variable: The environment variable with the token, for a client that stores the name of a variable instead.
    """
    bearer = f"Authorization: Bearer {token}"
    header = ("--header", bearer) if token else ()
    headers = {"headers": {"Authorization": f"Bearer {token}"}} if token else {}
    named = ("--bearer-token-env-var", variable) if token else ()
    entry = {"type": "http", "url": url, **headers}
    encoded = base64.b64encode(json.dumps({"url": url, **headers}).encode()).decode()
    cursor = f"cursor://anysphere.cursor-deeplink/mcp/install?name={quote(name)}&config={quote(encoded)}"
    vscode = json.dumps({"name": name, **entry})
    return [
        ClientSetup("claude-code", "Claude Code", ("claude", "mcp", "add", "--transport", "http", name, url, *header)),
        ClientSetup("cursor", "Cursor", file=".cursor/mcp.json", server=name, entry=entry, link=cursor),
        ClientSetup("vscode", "VS Code", ("code", "--add-mcp", vscode), link=f"vscode:mcp/install?{quote(vscode)}"),
        ClientSetup(
            "windsurf",
            "Windsurf",
            file=".codeium/windsurf/mcp_config.json",
            server=name,
            entry={"serverUrl": url, **headers},
        ),
        ClientSetup("codex", "Codex", ("codex", "mcp", "add", name, "--url", url, *named)),
        ClientSetup(
            "gemini",
            "Gemini CLI",
            ("gemini", "mcp", "add", "--scope", "user", "--transport", "http", *header, name, url),
        ),
    ]


def _quoted(word: str) -> str:
    """Return a word for a shell. The shell replaces a variable in a header."""
    return f'"{word}"' if _HEADER.fullmatch(word) else shlex.quote(word)
