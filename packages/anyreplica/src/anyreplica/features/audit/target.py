"""The targets of an audit log: a file, or stdout.

A target gets a function that makes the lines. Before the first write to a new file or to stdout, the target calls the
function with the hash of the last entry in this file; the hash is empty if the file has no entry. Before other writes,
it calls the function with None.
"""

import fcntl
import os
import re
import select
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from anyreplica.features.audit.line import BEGINNING

Make = Callable[[str | None], Sequence[bytes]]

_TAIL = 64 * 1024
"""Size of the part at the end of a file in which the target searches for the last entry, in bytes."""
_LAST_LINE = re.compile(rb"^" + re.escape(BEGINNING) + rb'[^\n]*,"hash":"([0-9a-f]{64})"\}$', re.MULTILINE)

_STDOUT = 1
_PIECE = select.PIPE_BUF
"""Maximum size of a write that a pipe keeps in one piece, in bytes (POSIX, `write`). So the lines of several processes
do not mix."""
_WAIT_SECONDS = 2
"""Time limit for the reader of a full pipe."""


class Written(NamedTuple):
    """The number of completely written lines, from the first line on, and the error that stopped the write, if any."""

    lines: int
    error: OSError | None


class FileTarget:
    """A file with mode 0600. Other replicas may append to it, too.

    After a rotation (the file was renamed or removed), the next lines go to the file that then has the path, or to a
    new file. The target does not sync the file: a power failure loses the data that the system has not yet written to
    the disk.
    """

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path
        self._file: int | None = None
        self._known: tuple[int, int] | None = None
        self._size = 0

    def open(self) -> int:
        """Open the file at the path, unless it is open, and return its descriptor."""
        if self._file is not None and not self._is_there(self._file):
            self.close()
        if self._file is None:
            self._file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return self._file

    def append(self, make: Make) -> Written:
        """Lock the file, so that no other replica writes, and append lines.

        If only a part of a line was written, this method removes that part. If the removal fails, the next write begins
        with a line break.
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
            self.close()  # the descriptor may be the problem: a stale handle, or a replaced disk
        return written

    def close(self) -> None:
        """Close the file if it is open. The next write opens it again."""
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
        known = identity == self._known and size >= self._size  # a file that was emptied is smaller
        torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"  # a process was killed while it wrote a line
        lines = make(None if known else _last_hash(file, size))
        data = b"".join((b"\n", *lines) if torn else lines)
        written, error = _write(file, data)
        whole, count = written, len(lines)
        if written < len(data):
            whole = data.rfind(b"\n", 0, written) + 1
            count = data.count(b"\n", 0, whole) - torn
            if whole < written:
                with suppress(OSError):
                    os.ftruncate(file, size + whole)
        if count > 0:
            self._known, self._size = identity, size + whole
        return Written(max(count, 0), error)


class StdoutTarget:
    """Stdout, from which the container runtime collects the lines.

    If a disk is full, a write may end in the middle of a line, and nobody can remove this part from stdout. The next
    write then begins with a line break. The first write also begins with a line break, because another process may have
    begun a line.
    """

    name = "stdout"

    def __init__(self) -> None:
        self._new = True
        self._torn = True

    def open(self) -> None:
        """Check that stdout is open. Raise `OSError` if it is closed."""
        os.fstat(_STDOUT)

    def append(self, make: Make) -> Written:
        """Write lines in pieces that a pipe does not split.

        If no process reads the pipe for `_WAIT_SECONDS`, the write fails, so that the thread does not wait for ever.
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
        """Do nothing: other code writes to stdout, too."""


def _last_hash(file: int, size: int) -> str:
    """Return the hash of the last complete entry near the end of a file, or an empty text."""
    begin = max(size - _TAIL, 0)
    found = _LAST_LINE.findall(os.pread(file, size - begin, begin)) if size else []
    return found[-1].decode() if found else ""


def _write_to_stdout(piece: bytes) -> tuple[int, OSError | None]:
    ready = select.poll()
    ready.register(_STDOUT, select.POLLOUT)
    if not ready.poll(_WAIT_SECONDS * 1000):
        return 0, TimeoutError("no process reads it")
    return _write(_STDOUT, piece)


def _write(file: int, data: bytes) -> tuple[int, OSError | None]:
    """Write as much as possible. Return the number of written bytes, and the error that stopped the write, if any."""
    written = 0
    try:
        while written < len(data):
            written += os.write(file, data[written:])
    except OSError as error:
        return written, error
    return written, None
