"""The address of a replica: check it, and listen on it."""

import asyncio
import errno
import functools
import os
import socket
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from anyreplica.process.lifecycle import end_regardless, flush_logs
from anyreplica.settings import CoreSettings
from anyreplica.settings.errors import StartupError

_FILES = "/dev/fd"
"""Folder with the numbers of the open files of this process (Linux and macOS)."""

_tcp = set[tuple[str, int]]()
"""Addresses and ports of the listening TCP sockets."""

_unix = set[str | bytes]()
"""Paths of the listening Unix sockets."""

_HANDLES = 16
"""Number of handles per listening socket. libuv accepts one connection per handle in each turn of the event loop. With
one handle, a client in a burst of connections would wait one turn for each connection before it."""

_HINTS = {
    errno.EADDRINUSE: "choose another port: --port 8151, or with make: PORT=8151 make up",
    errno.EACCES: "only root may use a port below 1024; choose a higher port with --port or MCP_PORT",
}


def release(listening: Iterable[socket.socket]) -> None:
    """From now on, forked processes release these listening sockets and all connections that these have accepted.

    Sockets of the server's author stay open in forked processes.

    A process that `os.fork`, `multiprocessing` or a `ProcessPoolExecutor` forks has a copy of each file descriptor. The
    kernel closes a socket only when its last copy is closed. So with a copy, a closed connection would stay open for
    its client, a lost replica would still get its share of the new connections, and nobody else could use the port.
    """
    if not _tcp and not _unix:
        os.register_at_fork(after_in_child=_release)
    for each in listening:
        name = each.getsockname()
        if isinstance(name, tuple):
            _tcp.add((name[0], name[1]))
        else:
            _unix.add(name)


def _release() -> None:
    """Replace each copy of such a socket with the null device.

    The number of the file stays in use. Otherwise, the next file of the process could get it, and the objects of the
    replica that this process has, too, could close that file.
    """
    null = os.open(os.devnull, os.O_RDWR)
    for number in map(int, os.listdir(_FILES)):  # noqa: PTH208
        with suppress(OSError):  # this file is no socket
            each = socket.socket(fileno=number)
            is_of_replica = _is_of_replica(each)
            each.detach()
            if is_of_replica:
                os.dup2(null, number, inheritable=False)
    os.close(null)


def _is_of_replica(each: socket.socket) -> bool:
    """Return whether a socket listens at one of the addresses, or is a connection to one of them."""
    name = each.getsockname()
    if each.family == socket.AF_UNIX:
        return name in _unix
    if each.family not in (socket.AF_INET, socket.AF_INET6) or each.type != socket.SOCK_STREAM:
        return False
    host, port = name[:2]
    return not _tcp.isdisjoint(((host, port), ("0.0.0.0", port), ("::", port)))  # noqa: S104  # nothing is bound here


def hosts(settings: CoreSettings) -> list[str]:
    """Return the addresses to listen on. `MCP_HOST=::` stands for all addresses of the machine, IPv4 and IPv6.

    Each version of IP has its own socket. If one socket served both, the address of an IPv4 client would be written as
    an IPv6 address, such as `::ffff:192.0.2.1`. On a machine without IPv6, a replica listens on IPv4 only.
    """
    if settings.mcp_host != "::":
        return [settings.mcp_host]
    try:
        socket.socket(socket.AF_INET6).close()
    except OSError:
        return ["0.0.0.0"]  # noqa: S104  # the operator has chosen all addresses
    return ["0.0.0.0", "::"]  # noqa: S104


def new_socket(host: str) -> socket.socket:
    """Return a TCP socket for an address. A socket for IPv6 does not serve IPv4."""
    new = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    if new.family == socket.AF_INET6:
        new.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    return new


def authority(host: str, port: int) -> str:
    """Return an address as in a URL (RFC 3986, section 3.2): `[::1]:8000`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def refuse_used_port(settings: CoreSettings) -> None:
    """Raise `StartupError` if another server uses the address of the settings, or if the address cannot be used.

    Without this check, two servers could share one port through SO_REUSEPORT, and each would get a part of the
    connections. On a Unix socket, the new server would replace the file of the other server.
    """
    if settings.mcp_uds:
        _refuse_file(Path(settings.mcp_uds))
    else:
        for host in hosts(settings):
            _refuse_port(host, settings.mcp_port)


class StoppableServer(uvicorn.Server):
    """A uvicorn server that a signal also stops during its start. uvicorn would first wait for the end of the start.

    The tasks of the start get 1 s to end after their cancellation. At the end of the start, the server writes the log
    lines that wait.
    """

    stops_start = False
    """Whether a signal has arrived during the start."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        flush_logs()  # "Ready" comes before the welcome of a supervisor, which waits for the end of the start

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        try:
            await super().serve(sockets)
        except asyncio.CancelledError:
            if not self.stops_start:
                raise

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        if not self.started and not self.stops_start and self._task is not None:
            self.stops_start = True
            end_regardless()
            self._loop.call_soon_threadsafe(self._task.cancel)


class Server(StoppableServer):
    """A uvicorn server that accepts up to `_HANDLES` connections in each turn of the event loop.

    The loop of asyncio accepts as many connections by itself. Processes that a tool forks do not have the sockets of
    this server.
    """

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        config, loop = self.config, asyncio.get_running_loop()
        listening = [each for server in self.servers for each in server.sockets] if self.started else []
        release(listening)
        if config.uds or config.loop != "uvloop":
            return
        made: Any = config.http_protocol_class
        protocol = functools.partial(made, config=config, server_state=self.server_state, app_state=self.lifespan.state)
        for first in listening:
            for _ in range(_HANDLES - 1):
                handle = socket.socket(fileno=os.dup(first.fileno()))
                self.servers.append(await loop.create_server(protocol, sock=handle, backlog=config.backlog))


def _refuse_port(host: str, port: int) -> None:
    with new_socket(host) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of an earlier run may still exist
        try:
            probe.bind((host, port))
        except OSError as error:
            hint = _HINTS.get(error.errno or 0, "MCP_HOST must be an address of this machine")
            raise StartupError(
                f"Cannot listen on {authority(host, port)}: {error.strerror or error}; {hint}."
            ) from None


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
