"""Lines on stdout, where whatever runs the container collects them."""

import os
import select

from mcp_swarm.audit.target import Make, Written, write_all

_FILE = 1
_PIECE = select.PIPE_BUF
"""Bytes that a pipe takes in one piece, so that lines of processes that share it don't mix (POSIX, `write`)."""

_WAIT_SECONDS = 2
"""Time for a reader to read."""


class StdoutTarget:
    """Stdout.

    A part of a line, left there by a full disk, can't be taken back: the next write begins with a line break. So does
    the first one, since somebody else may have begun a line.
    """

    name = "stdout"

    def __init__(self) -> None:
        self._new = True
        self._torn = True

    def open(self) -> None:
        """See whether there is one.

        Raises:
            OSError: it is closed.
        """
        os.fstat(_FILE)

    def append(self, make: Make) -> Written:
        """Write lines in pieces that a pipe keeps whole.

        A pipe that nobody reads is an error after `_WAIT_SECONDS`, and doesn't hold up the thread for ever.
        """
        lines = make("" if self._new else None)
        data = b"".join((b"\n", *lines) if self._torn else lines)
        torn, begin, error = self._torn, 0, None
        while begin < len(data) and error is None:
            end = data.rfind(b"\n", begin, begin + _PIECE) + 1 or data.index(b"\n", begin) + 1
            written, error = _write(data[begin:end])
            if written:
                self._torn = data[begin + written - 1] != ord("\n")
            begin += written
        count = data.count(b"\n", 0, begin) - (torn and begin > 0)
        self._new = self._new and not count
        return Written(count, error)

    def close(self) -> None:
        """Leave it open: others write to it, too."""


def _write(piece: bytes) -> tuple[int, OSError | None]:
    ready = select.poll()
    ready.register(_FILE, select.POLLOUT)
    if not ready.poll(_WAIT_SECONDS * 1000):
        return 0, TimeoutError("nobody reads it")
    return write_all(_FILE, piece)
