"""Tools that read the files in one folder, including hidden files, and nothing else on this machine.

`FILES_ROOT` is the folder; it is required. Paths are relative to this folder. The tools open a path name by name, each
folder relative to its parent, and never follow a symbolic link. So no call can reach a file outside of the folder,
even if another program moves files at the same time. A hard link counts as a normal file.
"""

import codecs
import errno
import heapq
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Annotated

from anyreplica import Settings, StartupError
from fastmcp.exceptions import ToolError
from fastmcp.tools import tool
from pydantic import BaseModel, Field


class FilesSettings(Settings):
    """The settings of this pack."""

    files_root: str = Field("", description="Folder with the files that callers may read. Required.")


_ROOT = FilesSettings.load().files_root
_FOLDER = os.O_RDONLY | os.O_DIRECTORY
# O_NONBLOCK: do not wait for the writer of a FIFO. O_NOCTTY: do not take a terminal as the controlling terminal.
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_LONGEST_PATH = 4096
_PART_BYTES = 64 * 1024
_MOST_FOUND = 1000
_SEARCHED_BYTES_OF_A_FILE = 1024 * 1024
_SEARCHED_BYTES = 128 * 1024 * 1024
_LEAST_BYTES = 4096
"""Number of bytes that each file or folder counts for in a search, so that many small files also reach the limit."""
_REASONS = {
    errno.ENOENT: "the file or folder does not exist",
    errno.ENOTDIR: "the folder does not exist, or it is a symbolic link",
    errno.ELOOP: "symbolic links are not allowed",
    errno.EACCES: "the server has no permission to read it",
    errno.ENXIO: "this is not a regular file",
    errno.ENAMETOOLONG: "the path contains a name that is too long",
}

if not _ROOT:
    raise StartupError("FILES_ROOT: required; set it to the folder with the files that callers may read")
try:
    os.close(os.open(_ROOT, _FOLDER))
except OSError as error:
    raise StartupError(f"FILES_ROOT={_ROOT}: {error.strerror}") from None


class Found(BaseModel):
    """A list of results."""

    found: list[str]
    complete: bool = Field(description="False: there may be more results than this list contains")


class Part(BaseModel):
    """The text of a file, or a part of it."""

    text: str
    size: int = Field(description="Size of the whole file in bytes")
    next_offset: int | None = Field(description="Offset of the next part in bytes; null: this is the last part")


@tool(annotations={"readOnlyHint": True})
def list_directory(folder: str = ".") -> Found:
    """List the paths of the files and folders in a folder, ordered by name, at most 1000. Folders end with "/".

    Args:
        folder: Path of the folder, such as "reports/2026"; "." is the top folder.

    Raises:
        ToolError: The folder does not exist or can't be read.
    """
    first = heapq.nsmallest(_MOST_FOUND + 1, _paths(folder))
    return Found(found=first[:_MOST_FOUND], complete=len(first) <= _MOST_FOUND)


@tool(annotations={"readOnlyHint": True})
def read_config(path: str, offset: Annotated[int, Field(ge=0)] = 0) -> Part:
    """Read a configuration file or another text file (UTF-8). Large files come in parts of 64 KiB.

    Args:
        path: Path of the file, such as "services/web.yml".
        offset: Start of the part in bytes: 0, or the next_offset of the part before.

    Raises:
        ToolError: The file does not exist, can't be read, or is not text.
    """
    part, size = _bytes(path, offset, _PART_BYTES)
    text = _text(path, part, last=offset + len(part) >= size)
    end = offset + len(text.encode())
    return Part(text=text, size=size, next_offset=end if text and end < size else None)


@tool(annotations={"readOnlyHint": True})
def search_logs(words: Annotated[str, Field(min_length=1, max_length=200)], folder: str = ".") -> Found:
    """Find the lines in logs and other text files that contain a text; upper and lower case are equal.

    Each result has the form "path:line number: line". Only the first 1 MiB of a file is searched.

    Args:
        words: Text to find; it has no wildcards.
        folder: Path of the folder to search, with all its subfolders; "." is the top folder.

    Raises:
        ToolError: The folder does not exist or can't be read.
    """
    found: list[str] = []
    sought, left, complete = words.casefold(), _SEARCHED_BYTES, True
    for path in _beneath(folder):
        left -= _LEAST_BYTES
        if not path.endswith("/"):
            with suppress(ToolError):  # The file is not text or has been removed.
                part, size = _bytes(path, 0, _SEARCHED_BYTES_OF_A_FILE)
                left -= len(part)
                text = _text(path, part, last=len(part) >= size)
                complete &= len(part) >= size
                found += islice(_lines(path, text, sought), _MOST_FOUND + 1)
        if left < 0 or len(found) > _MOST_FOUND:
            return Found(found=found[:_MOST_FOUND], complete=False)
    return Found(found=found, complete=complete)


def _lines(path: str, text: str, sought: str) -> Iterator[str]:
    if sought in text.casefold():
        for number, line in enumerate(text.split("\n"), 1):
            if sought in line.casefold():
                yield f"{path}:{number}: {line.rstrip()[:200]}"


def _beneath(folder: str) -> Iterator[str]:
    folders = [folder]
    for here in folders:
        try:
            for path in _paths(here):
                yield path
                if path.endswith("/"):
                    folders.append(path)
        except ToolError:  # The folder has been removed or can't be read.
            if here is folder:
                raise


def _paths(folder: str) -> Iterator[str]:
    names = _names(folder)
    with _opened(folder, _FOLDER) as descriptor, os.scandir(descriptor) as entries:
        for entry in entries:
            path = "/".join([*names, entry.name])
            try:
                path.encode()
            except UnicodeEncodeError:  # The name is not UTF-8, so JSON can't contain it.
                continue
            if entry.is_file(follow_symlinks=False):
                yield path
            elif entry.is_dir(follow_symlinks=False):
                yield f"{path}/"


def _bytes(path: str, offset: int, most: int) -> tuple[bytes, int]:
    """Return a part of a file and the size of the whole file."""
    with _opened(path, _FILE) as descriptor:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise ToolError(f"{path!r}: {_REASONS[errno.ENXIO]}")
        return os.pread(descriptor, most, min(offset, about.st_size)), about.st_size


def _text(path: str, part: bytes, *, last: bool) -> str:
    """Return the text of a part, without a final character that continues in the next part."""
    with suppress(UnicodeDecodeError):
        text = codecs.getincrementaldecoder("utf-8")().decode(part, final=last)
        if "\0" not in text:
            return text
    raise ToolError(f"{path!r}: the file is not text in UTF-8")


@contextmanager
def _opened(path: str, flags: int) -> Iterator[int]:
    """Open a file or folder in the root folder, give its descriptor, and close it afterwards."""
    descriptor = _open(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open(path: str, flags: int) -> int:
    names = _names(path)
    here = os.open(_ROOT, _FOLDER)
    for depth, name in enumerate(names, 1):
        kind = flags if depth == len(names) else _FOLDER
        try:
            inner = os.open(name, kind | os.O_NOFOLLOW, dir_fd=here)
        except OSError as error:
            if error.errno not in _REASONS:
                raise
            raise ToolError(f"{path!r}: {_REASONS[error.errno]}") from None
        except ValueError:  # The name contains a NUL or is not valid Unicode, so no file can have it.
            raise ToolError(f"{path!r}: {_REASONS[errno.ENOENT]}") from None
        finally:
            os.close(here)
        here = inner
    return here


def _names(path: str) -> list[str]:
    if len(path) > _LONGEST_PATH:
        raise ToolError(f"The path is too long: the limit is {_LONGEST_PATH} characters.")
    names = [name for name in path.split("/") if name not in ("", ".")]
    if path.startswith("/") or ".." in names:
        raise ToolError(f"{path!r}: a path must be relative to the top folder, without a leading '/' and without '..'")
    return names
