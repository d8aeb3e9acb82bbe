"""A server on a Unix domain socket."""

import socket
from pathlib import Path

from benchmarks.process import Process


class UnixProcess(Process):
    """A module of this project that serves HTTP on a Unix socket.

    Args:
        path: the socket's file, which it makes.
        module, core, folder, settings: as for `Process`.
    """

    def __init__(self, *module: str, path: Path, core: int | None, folder: Path, **settings: str) -> None:
        self._path = str(path)
        super().__init__(*module, core=core, folder=folder, MCP_UDS=self._path, **settings)

    def is_ready(self) -> bool:
        """Whether `/readyz` says 200."""
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(1)
                connection.connect(self._path)
                connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                return connection.recv(64).startswith(b"HTTP/1.1 200")
        except OSError:
            return False
