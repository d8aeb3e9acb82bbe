"""Where a replica listens."""

import asyncio
import errno
import functools
import os
import socket
import stat
from pathlib import Path
from typing import Any

import uvicorn

from mcp_swarm.settings import Settings
from mcp_swarm.settings.errors import StartupError

_HANDLES = 16
"""libuv accepts one connection for each listening socket in a turn of the event loop. With one handle of the socket, a
burst of connections would delay each new client by as many turns as there are connections before it."""

_HINTS = {
    errno.EADDRINUSE: "set MCP_PORT to another port (with make: PORT=8151 make up)",
    errno.EACCES: "a port below 1024 is root's, choose a higher one",
}


def refuse_taken(settings: Settings) -> None:
    """Refuse to start where another server listens, with a `StartupError` that says what to do.

    SO_REUSEPORT would let two of these run on one port and share its connections, and a Unix socket's file would be
    replaced; nobody wants either.
    """
    if settings.mcp_uds:
        _refuse_file(Path(settings.mcp_uds))
    else:
        _refuse_port(settings.mcp_host, settings.mcp_port)


class Server(uvicorn.Server):
    """uvicorn's server, which accepts up to `_HANDLES` connections in each turn of the event loop."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        config, loop = self.config, asyncio.get_running_loop()
        if config.uds or not self.started:
            return
        made: Any = config.http_protocol_class
        protocol = functools.partial(made, config=config, server_state=self.server_state, app_state=self.lifespan.state)
        for first in [each for server in self.servers for each in server.sockets]:
            for _ in range(_HANDLES - 1):
                handle = socket.socket(fileno=os.dup(first.fileno()))
                self.servers.append(await loop.create_server(protocol, sock=handle, backlog=config.backlog))


def _refuse_port(host: str, port: int) -> None:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of the last run may linger
        try:
            probe.bind((host, port))
        except OSError as error:
            hint = _HINTS.get(error.errno or 0, "MCP_HOST has to be an address of this machine")
            raise StartupError(f"Can't listen on {host}:{port}: {error.strerror or error}; {hint}.") from None


def _refuse_file(path: Path) -> None:
    try:
        if not stat.S_ISSOCK(path.stat().st_mode):
            raise StartupError(f"MCP_UDS={path}: a file that is no socket is there; choose another path.")
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(str(path))
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise StartupError(f"MCP_UDS={path}: there is no folder {path.parent}; make it first.") from None
    except ConnectionRefusedError:
        pass  # left by a process that is gone; it is replaced
    except OSError as error:
        raise StartupError(f"MCP_UDS={path}: {error.strerror or error}; choose another path.") from None
    else:
        raise StartupError(f"MCP_UDS={path}: another server listens there; choose another path.")
