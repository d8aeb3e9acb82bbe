"""The address of a replica: check it, and listen on it."""

import asyncio
import errno
import functools
import os
import socket
import stat
from pathlib import Path
from typing import Any

import uvicorn

from anyreplica.settings import Settings
from anyreplica.settings.errors import StartupError

_HANDLES = 16
"""Number of handles per listening socket. libuv accepts one connection per handle in each turn of the event loop. With
one handle, a client in a burst of connections would wait one turn for each connection before it."""

_HINTS = {
    errno.EADDRINUSE: "set MCP_PORT to another port (with make: PORT=8151 make up)",
    errno.EACCES: "only root may use a port below 1024; set MCP_PORT to a higher port",
}


def refuse_taken(settings: Settings) -> None:
    """Raise `StartupError` if another server uses the address of the settings, or if the address cannot be used.

    Without this check, two servers could share one port through SO_REUSEPORT, and each would get a part of the
    connections. On a Unix socket, the new server would replace the file of the other server.
    """
    if settings.mcp_uds:
        _refuse_file(Path(settings.mcp_uds))
    else:
        _refuse_port(settings.mcp_host, settings.mcp_port)


class Server(uvicorn.Server):
    """A uvicorn server that accepts up to `_HANDLES` connections in each turn of the event loop."""

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
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of an earlier run may still exist
        try:
            probe.bind((host, port))
        except OSError as error:
            hint = _HINTS.get(error.errno or 0, "MCP_HOST must be an address of this machine")
            raise StartupError(f"Cannot listen on {host}:{port}: {error.strerror or error}; {hint}.") from None


def _refuse_file(path: Path) -> None:
    try:
        if not stat.S_ISSOCK(path.stat().st_mode):
            raise StartupError(f"MCP_UDS={path}: this file exists and is not a socket; choose another path.")
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(str(path))
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise StartupError(f"MCP_UDS={path}: the folder {path.parent} does not exist; create it.") from None
    except ConnectionRefusedError:
        pass  # the process that made this socket has ended, so the new server may replace it
    except OSError as error:
        raise StartupError(f"MCP_UDS={path}: {error.strerror or error}; choose another path.") from None
    else:
        raise StartupError(f"MCP_UDS={path}: another server listens on this socket; choose another path.")
