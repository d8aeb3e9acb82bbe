"""A process that ends what a test run leaves behind, also after the run was killed.

A run starts the guard first. Everything that the run starts inherits the variable `VARIABLE` with the name of the run,
so the guard finds it in `/proc` (Linux only), with all its children. The guard notices the end of the run, however it
ended, because a pipe between them closes.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

VARIABLE = "ANYREPLICA_TEST_RUN"
_PROCESSES = Path("/proc")
_PATIENCE_SECONDS = 10.0
"""Time that processes have to end by themselves after the end of the run, in seconds."""


class Guard:
    """The guard of this run. It also guards runs that this run starts, because they inherit the variable."""

    def __init__(self) -> None:
        self.run = f"{os.getpid()}-{os.urandom(4).hex()}"
        os.environ[VARIABLE] = self.run
        ours, theirs = os.pipe()
        environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, self.run, str(ours)],
            cwd=Path(__file__).parents[1],
            env=environment,
            pass_fds=[ours],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        os.close(ours)
        self._pipe = theirs

    def end(self) -> list[str]:
        """Let the guard end everything that is left. Return the command lines of what it had to kill."""
        os.close(self._pipe)
        printed, _ = self._process.communicate()
        os.environ.pop(VARIABLE, None)
        return printed.decode(errors="replace").splitlines()


def is_supported() -> bool:
    """Return whether this system has what the guard needs."""
    return (_PROCESSES / "self" / "environ").exists()


def processes_with(variable: str) -> dict[int, str]:
    """Return the processes that started with a variable, and all their children: their command lines, by process id.

    Args:
        variable: the variable as `NAME=value`.
    """
    wanted = variable.encode()
    parents: dict[int, int] = {}
    found: dict[int, str] = {}
    for folder in _PROCESSES.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            pid = int(folder.name)
            # The second field is the name in parentheses, which may contain spaces: proc_pid_stat(5).
            state, parent = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
            if state == "Z":
                continue
            parents[pid] = int(parent)
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found[pid] = _command(folder)
    while added := [pid for pid, parent in parents.items() if parent in found and pid not in found]:
        found |= {pid: _command(_PROCESSES / str(pid)) for pid in added}
    return found


def _command(folder: Path) -> str:
    with contextlib.suppress(OSError):
        return (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return ""


def _until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def main(run: str, pipe: int) -> None:
    """Wait for the end of a run, and for the end of its processes. Kill and print those that do not end."""
    while os.read(pipe, 1):
        pass

    def left() -> dict[int, str]:
        return processes_with(f"{VARIABLE}={run}")

    if _until(lambda: not left(), _PATIENCE_SECONDS):
        return
    while processes := left():
        for pid, command in processes.items():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(OSError):  # the run was killed, so nobody reads
                os.write(1, f"{pid} {command}\n".encode())
        _until(lambda: not left(), 1)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
