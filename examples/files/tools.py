"""A folder for agents to read: its files and folders, hidden ones too, and nothing else of this machine.

`FILES_ROOT` is that folder; required. Callers name what is in it by its path from there. A path is walked name by
name, each folder opened within the one before, and no symbolic link is followed, wherever it leads: so nothing outside
is reached, whoever moves files meanwhile. A hard link is a file like any other.
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

from fastmcp.exceptions import ToolError
from fastmcp.tools import tool
from mcp_swarm import Settings, StartupError
from pydantic import BaseModel, Field


class FilesSettings(Settings):
    """This pack's settings."""

    files_root: str = Field("", description="The folder whose files callers may read.")


_ROOT = FilesSettings.load().files_root
_FOLDER = os.O_RDONLY | os.O_DIRECTORY
# Nobody waits for a FIFO's writer, and no terminal becomes the server's own.
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_LONGEST_PATH = 4096
_PART_BYTES = 64 * 1024
_MOST_FOUND = 1000
_SEARCHED_BYTES_OF_A_FILE = 1024 * 1024
_SEARCHED_BYTES = 128 * 1024 * 1024
_LEAST_BYTES = 4096
"""What anything counts for in a search, so that many small files end it, too."""
_REASONS = {
    errno.ENOENT: "there is no such file or folder",
    errno.ENOTDIR: "there is no such folder (symbolic links aren't followed)",
    errno.ELOOP: "this is a symbolic link, and none is followed",
    errno.EACCES: "the server may not read it",
    errno.ENXIO: "this is no file",
    errno.ENAMETOOLONG: "a name in it is too long",
}

if not _ROOT:
    raise StartupError("FILES_ROOT: required; the folder whose files callers may read")
try:
    os.close(os.open(_ROOT, _FOLDER))
except OSError as error:
    raise StartupError(f"FILES_ROOT={_ROOT}: {error.strerror}") from None


class Found(BaseModel):
    """What was found, as far as it fits."""

    found: list[str]
    complete: bool = Field(description="False: there is more")


class Part(BaseModel):
    """Text of a file."""

    text: str
    size: int = Field(description="Bytes of the whole file")
    next_offset: int | None = Field(description="Where the next part begins; null: this was the last")


@tool(annotations={"readOnlyHint": True})
def list_directory(folder: str = ".") -> Found:
    """List a folder: the paths of its first 1000 files and folders in order of name; those of folders end with "/".

    Args:
        folder: Its path, as in "reports/2026"; "." is the folder that holds all others.

    Raises:
        ToolError: there is no such folder within reach.
    """
    first = heapq.nsmallest(_MOST_FOUND + 1, _paths(folder))
    return Found(found=first[:_MOST_FOUND], complete=len(first) <= _MOST_FOUND)


@tool(annotations={"readOnlyHint": True})
def read_config(path: str, offset: Annotated[int, Field(ge=0)] = 0) -> Part:
    """Read a configuration, or any other text file (UTF-8); of one larger than 64 KiB a part.

    Args:
        path: Its path, as in "services/web.yml".
        offset: The byte to begin at: 0, or the next_offset of the part before.

    Raises:
        ToolError: there is no such file within reach, or what is there is no text.
    """
    part, size = _bytes(path, offset, _PART_BYTES)
    text = _text(path, part, last=offset + len(part) >= size)
    end = offset + len(text.encode())
    return Part(text=text, size=size, next_offset=end if text and end < size else None)


@tool(annotations={"readOnlyHint": True})
def search_logs(words: Annotated[str, Field(min_length=1, max_length=200)], folder: str = ".") -> Found:
    """Find lines of logs, and of other text files, with these words, in upper or lower case.

    Each is given as "path:line: the line". Large files are searched in part.

    Args:
        words: What to look for, to the letter.
        folder: The path of the folder to search with all beneath it; "." is everywhere.

    Raises:
        ToolError: there is no such folder within reach.
    """
    found: list[str] = []
    sought, left, complete = words.casefold(), _SEARCHED_BYTES, True
    for path in _beneath(folder):
        left -= _LEAST_BYTES
        if not path.endswith("/"):
            with suppress(ToolError):  # no text, or gone
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
        except ToolError:  # gone, or not for the server
            if here is folder:
                raise


def _paths(folder: str) -> Iterator[str]:
    names = _names(folder)
    with _opened(folder, _FOLDER) as descriptor, os.scandir(descriptor) as entries:
        for entry in entries:
            path = "/".join([*names, entry.name])
            try:
                path.encode()
            except UnicodeEncodeError:  # a name that isn't UTF-8, which JSON can't carry
                continue
            if entry.is_file(follow_symlinks=False):
                yield path
            elif entry.is_dir(follow_symlinks=False):
                yield f"{path}/"


def _bytes(path: str, offset: int, most: int) -> tuple[bytes, int]:
    """Part of a file, and the whole one's size."""
    with _opened(path, _FILE) as descriptor:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise ToolError(f"{path!r}: {_REASONS[errno.ENXIO]}")
        return os.pread(descriptor, most, min(offset, about.st_size)), about.st_size


def _text(path: str, part: bytes, *, last: bool) -> str:
    """A part's text, without a character that ends in the next part."""
    with suppress(UnicodeDecodeError):
        text = codecs.getincrementaldecoder("utf-8")().decode(part, final=last)
        if "\0" not in text:
            return text
    raise ToolError(f"{path!r}: what is there is no text in UTF-8")


@contextmanager
def _opened(path: str, flags: int) -> Iterator[int]:
    """A file or folder beneath the root, while it is needed; its descriptor."""
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
        except ValueError:  # no file has such a name: a NUL is in it, or what UTF-8 can't carry
            raise ToolError(f"{path!r}: {_REASONS[errno.ENOENT]}") from None
        finally:
            os.close(here)
        here = inner
    return here


def _names(path: str) -> list[str]:
    if len(path) > _LONGEST_PATH:
        raise ToolError(f"the path is longer than {_LONGEST_PATH} characters")
    names = [name for name in path.split("/") if name not in ("", ".")]
    if path.startswith("/") or ".." in names:
        raise ToolError(f"{path!r}: a path begins in the top folder, without '/' in front, and has no '..'")
    return names
