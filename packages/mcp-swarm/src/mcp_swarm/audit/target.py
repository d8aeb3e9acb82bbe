"""What lines are written to: a file, or stdout.

Both take what makes the lines. It is given None or, if nothing was written yet to what the target is now, the hash of
the last line in it, empty if there is none.
"""

import fcntl
import os
import re
import select
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mcp_swarm.audit.line import BEGINNING

Make = Callable[[str | None], Sequence[bytes]]

_TAIL = 64 * 1024
"""Bytes at the end of a file, in which its last line is looked for."""
_LAST_LINE = re.compile(rb"^" + re.escape(BEGINNING) + rb'[^\n]*,"hash":"([0-9a-f]{64})"\}$', re.MULTILINE)

_STDOUT = 1
_PIECE = select.PIPE_BUF
"""Bytes that a pipe takes in one piece, so that lines of processes that share it don't mix (POSIX, `write`)."""
_WAIT_SECONDS = 2
"""Time for a reader to read."""


class Written(NamedTuple):
    """How many lines, the first of those that were made, are there as a whole; and why the others aren't."""

    lines: int
    error: OSError | None


class FileTarget:
    """A file, made with mode 0600, that other replicas may append to as well.

    When another file has its path, or none has (rotation by renaming), the next lines go to the one there, or to a
    new one. It isn't synced: what the system had not yet put on the disk is lost when the power fails.
    """

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path
        self._file: int | None = None
        self._known: tuple[int, int] | None = None
        self._size = 0

    def open(self) -> int:
        """Open the file at the path, unless it is open, and give its descriptor."""
        if self._file is not None and not self._is_there(self._file):
            self.close()
        if self._file is None:
            self._file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return self._file

    def append(self, make: Make) -> Written:
        """Append lines, while no other replica does.

        What is written of a line in part is taken back; where that can't be done, the next write begins with a line
        break.
        """
        try:
            file = self.open()
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                written = self._append(file, make)
            finally:
                fcntl.flock(file, fcntl.LOCK_UN)
        except OSError as error:
            written = Written(0, error)
        if written.error is not None:
            self.close()  # what is wrong may be the file as it was opened: a stale handle, a disk that was replaced
        return written

    def close(self) -> None:
        """Close it, if it is open; it is opened again when it is needed."""
        if self._file is not None:
            with suppress(OSError):
                os.close(self._file)
            self._file = None

    def _is_there(self, file: int) -> bool:
        try:
            return os.path.samestat(self._path.stat(), os.fstat(file))
        except FileNotFoundError:
            return False

    def _append(self, file: int, make: Make) -> Written:
        found = os.fstat(file)
        identity, size = (found.st_dev, found.st_ino), found.st_size
        known = identity == self._known and size >= self._size  # it is smaller if somebody emptied it
        torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"  # a process was killed in the middle of a line
        lines = make(None if known else _last_hash(file, size))
        data = b"".join((b"\n", *lines) if torn else lines)
        written, error = _write(file, data)
        whole = data.rfind(b"\n", 0, written) + 1
        if whole < written:
            with suppress(OSError):
                os.ftruncate(file, size + whole)
        count = data.count(b"\n", 0, whole) - torn
        if count > 0:
            self._known, self._size = identity, size + whole
        return Written(max(count, 0), error)


class StdoutTarget:
    """Stdout, where whatever runs the container collects the lines.

    A part of a line, left there by a full disk, can't be taken back: the next write begins with a line break. So does
    the first one, since somebody else may have begun a line.
    """

    name = "stdout"

    def __init__(self) -> None:
        self._new = True
        self._torn = True

    def open(self) -> None:
        """See whether there is one: an `OSError` if it is closed."""
        os.fstat(_STDOUT)

    def append(self, make: Make) -> Written:
        """Write lines in pieces that a pipe keeps whole.

        A pipe that nobody reads is an error after `_WAIT_SECONDS`, and doesn't hold up the thread for ever.
        """
        lines = make("" if self._new else None)
        data = b"".join((b"\n", *lines) if self._torn else lines)
        torn, begin, error = self._torn, 0, None
        while begin < len(data) and error is None:
            end = data.rfind(b"\n", begin, begin + _PIECE) + 1 or data.index(b"\n", begin) + 1
            written, error = _write_to_stdout(data[begin:end])
            if written:
                self._torn = data[begin + written - 1] != ord("\n")
            begin += written
        count = data.count(b"\n", 0, begin) - (torn and begin > 0)
        self._new = self._new and not count
        return Written(count, error)

    def close(self) -> None:
        """Leave it open: others write to it, too."""


def _last_hash(file: int, size: int) -> str:
    """Of the last whole line near the end of a file."""
    begin = max(size - _TAIL, 0)
    found = _LAST_LINE.findall(os.pread(file, size - begin, begin)) if size else []
    return found[-1].decode() if found else ""


def _write_to_stdout(piece: bytes) -> tuple[int, OSError | None]:
    ready = select.poll()
    ready.register(_STDOUT, select.POLLOUT)
    if not ready.poll(_WAIT_SECONDS * 1000):
        return 0, TimeoutError("nobody reads it")
    return _write(_STDOUT, piece)


def _write(file: int, data: bytes) -> tuple[int, OSError | None]:
    """Write all that can be written; returns how many bytes were, and why not all."""
    written = 0
    try:
        while written < len(data):
            written += os.write(file, data[written:])
    except OSError as error:
        return written, error
    return written, None
