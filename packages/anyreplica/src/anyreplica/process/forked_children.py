"""Processes that a tool forks have no copy of the replica's listening sockets and of its connections.

A process that `os.fork`, `multiprocessing` or a `ProcessPoolExecutor` forks has a copy of each file descriptor. The
kernel closes a socket only when its last copy is closed. So with a copy, a closed connection would stay open for its
client, a lost replica would still get its share of the new connections, and nobody else could use the port.
"""

import os
import socket
from collections.abc import Iterable
from contextlib import suppress

_FILES = "/dev/fd"
"""Folder with the numbers of the open files of this process (Linux and macOS)."""

_tcp = set[tuple[str, int]]()
"""Addresses and ports of the listening TCP sockets."""
_unix = set[str | bytes]()
"""Paths of the listening Unix sockets."""


def release(listening: Iterable[socket.socket]) -> None:
    """From now on, forked processes release these listening sockets and all connections that these have accepted.

    Sockets of the server's author stay open in forked processes.
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
