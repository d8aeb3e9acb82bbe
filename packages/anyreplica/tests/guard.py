"""A process that ends what a test run leaves behind, also after the run was killed.

A run starts the guard first. Every second, the guard looks in `/proc` (Linux only) for the children of the run and for
their children. It also finds what has inherited the variable `VARIABLE` with the name of the run. It notices the end of
the run, however it ended, because a pipe between them closes.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

VARIABLE = "ANYREPLICA_TEST_RUN"
_PROCESSES = Path("/proc")
_PAUSE_SECONDS = 1.0
_TRACKER = "multiprocessing.resource_tracker"
"""A part of the command of a process that Python starts beside others. It ends with the run itself."""
_ROUNDS = 5
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
    return {pid: _command(pid) for pid, _ in _family(set(), variable)}


def _family(known: set[tuple[int, int]], variable: str, owner: int | None = None) -> set[tuple[int, int]]:
    """Return the known processes that still run, those that started with a variable, and the children of all.

    A process is a pid and the time of its start, because the system uses a pid again. The variable alone is not enough:
    some programs, such as Redis, write over their variables.

    Args:
        known: the processes of an earlier call.
        variable: the variable as `NAME=value`.
        owner: a process whose children belong to the result, too.
    """
    wanted = variable.encode()
    parents: dict[int, int] = {}
    starts: dict[int, int] = {}
    found: set[int] = set()
    for folder in _PROCESSES.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            pid = int(folder.name)
            state, parent, start = _state(folder)
            if state == "Z":
                continue
            parents[pid], starts[pid] = parent, start
            if (pid, start) in known or wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.add(pid)
    ancestors = found | ({owner} if owner is not None else set())
    while added := {pid for pid, parent in parents.items() if parent in ancestors and pid not in found}:
        found |= added
        ancestors |= added
    return {(pid, starts[pid]) for pid in found}


def _state(folder: Path) -> tuple[str, int, int]:
    """Return the state, the parent's pid, and the time of the start: proc_pid_stat(5)."""
    # The second field is the name in parentheses, which may contain spaces.
    state, parent, *fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
    return state, int(parent), int(fields[17])


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return (_PROCESSES / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return ""


def _until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def main(run: str, pipe: int) -> None:
    """Wait for the end of a run, and for the end of its processes. Kill and print those that do not end.

    Only processes that started after the guard are killed, whatever else is wrong.
    """
    owner, variable = int(run.partition("-")[0]), f"{VARIABLE}={run}"
    _, _, began = _state(_PROCESSES / "self")
    known: set[tuple[int, int]] = set()
    while not select.select([pipe], [], [], _PAUSE_SECONDS)[0]:
        known = _family(known, variable, owner)

    def left() -> dict[int, str]:
        nonlocal known
        known = {(pid, start) for pid, start in _family(known, variable) if start > began and pid != os.getpid()}
        commands = {pid: _command(pid) for pid, _ in known}
        return {pid: command for pid, command in commands.items() if _TRACKER not in command}

    _until(lambda: not left(), _PATIENCE_SECONDS)
    for _ in range(_ROUNDS):  # what is killed may have started something in the meantime
        for pid, command in left().items():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(OSError):  # the run was killed, so nobody reads
                os.write(1, f"{pid} {command}\n".encode())
        if _until(lambda: not left(), 1):
            return


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
