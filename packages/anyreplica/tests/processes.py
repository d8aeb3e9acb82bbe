"""What the kernel says about a process and its children. A process that ends meanwhile is no error (Linux only)."""

import contextlib
from pathlib import Path


def children(pid: int) -> list[int]:
    """Return the process ids of a process's children, of all its threads."""
    found = list[int]()
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found += map(int, (thread / "children").read_text().split())
    return found


def descendants(pid: int) -> list[int]:
    """Return the process ids of a process's children, of their children, and so on."""
    parents = [pid]
    for parent in parents:
        parents += children(parent)
    return parents[1:]


def command_of(pid: int) -> str:
    """Return a process's command line with spaces between its arguments, or an empty text if the process has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def runs(pid: int) -> bool:
    """Return whether a process, or a thread of a zombie after `kill -9`, runs and so still has its files."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        status = Path(f"/proc/{pid}/status").read_text()
        return "State:\tZ" not in status or "Threads:\t1\n" not in status
    return False


def open_files(pid: int) -> list[str]:
    """Return what a process's open descriptors lead to: paths of files, `socket:[…]`, `pipe:[…]` and others."""
    found = list[str]()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # This descriptor has just been closed.
            found.append(str(file.readlink()))
    return found
