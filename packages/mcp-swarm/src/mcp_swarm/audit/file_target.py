"""The file that lines are appended to."""

import fcntl
import os
import re
from contextlib import suppress
from pathlib import Path

from mcp_swarm.audit.line import BEGINNING
from mcp_swarm.audit.target import Make, Written, write_all

_TAIL = 64 * 1024
_LAST_LINE = re.compile(rb"^" + re.escape(BEGINNING) + rb'[^\n]*,"hash":"([0-9a-f]{64})"\}$', re.MULTILINE)


class FileTarget:
    """A file, made with mode 0600, that other replicas may append to as well.

    When another file has its path, or none has (rotation by renaming), the next lines go to the one there, or to a
    new one. It isn't synced: what the system had not yet put on the disk is lost when the power fails.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path
        self._file: int | None = None
        self._known: tuple[int, int] | None = None
        self._size = 0

    def open(self) -> None:
        """Make the file, if it isn't there.

        Raises:
            OSError: it can't be opened.
        """
        self._opened()

    def append(self, make: Make) -> Written:
        """Append lines, while no other replica does.

        What is written of a line in part is taken back; where that can't be done, the next write begins with a line
        break.
        """
        try:
            file = self._opened()
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

    def _opened(self) -> int:
        if self._file is not None and not self._is_there(self._file):
            self.close()
        if self._file is None:
            self._file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return self._file

    def _is_there(self, file: int) -> bool:
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(file))  # noqa: PTH116  # no object made of the path
        except FileNotFoundError:
            return False

    def _append(self, file: int, make: Make) -> Written:
        found = os.fstat(file)
        identity, size = (found.st_dev, found.st_ino), found.st_size
        known = identity == self._known and size >= self._size  # it is smaller if somebody emptied it
        torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"  # a process was killed in the middle of a line
        lines = make(None if known else _last_hash(file, size))
        data = b"".join((b"\n", *lines) if torn else lines)
        written, error = write_all(file, data)
        whole = data.rfind(b"\n", 0, written) + 1
        if whole < written:
            with suppress(OSError):
                os.ftruncate(file, size + whole)
        count = data.count(b"\n", 0, whole) - torn
        if count > 0:
            self._known, self._size = identity, size + whole
        return Written(max(count, 0), error)


def _last_hash(file: int, size: int) -> str:
    """Of the last whole line near the end of a file."""
    begin = max(size - _TAIL, 0)
    found = _LAST_LINE.findall(os.pread(file, size - begin, begin)) if size else []
    return found[-1].decode() if found else ""
