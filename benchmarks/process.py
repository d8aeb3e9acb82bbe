"""A process that is measured: `python -m server`, or the floor, on a core of its own; or one beside it."""

import os
import secrets
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.interruption import held

ROOT = Path(__file__).parent.parent

_running: list["Program"] = []

_CORES = os.sched_getaffinity(0)
"""Before a script chose one of them for itself."""

_POLL = 0.005
_START = 60.0
_STOP = 15.0


class ProcessError(Exception):
    """The process doesn't serve; `str()` says why in one line."""


class Program:
    """A process of this machine that listens on a private port of 127.0.0.1, and ends with its `with`.

    Args:
        command: what to run.
        port: where it is to listen.
        core: the number of the only CPU core that it runs on; None: on any.
        folder: where its stderr is written.
        settings: environment variables; of this process's own it inherits only what finds programs and a locale.
    """

    def __init__(self, *command: str, port: int, core: int | None, folder: Path, **settings: str) -> None:
        self.port = port
        self._log = folder / f"{self.port}.log"
        inherited = {
            name: os.environ[name] for name in ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR") if name in os.environ
        }
        self.began = time.perf_counter()
        with self._log.open("ab") as log, held():  # appending, so that it can be emptied while it is written
            self._process = subprocess.Popen(command, cwd=ROOT, env=inherited | settings, stdout=log, stderr=log)
            _running.append(self)
        os.sched_setaffinity(self._process.pid, _CORES if core is None else {core})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End it, if it runs, and wait until it has ended."""
        self._process.terminate()
        try:
            self._process.wait(_STOP)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self in _running:
            _running.remove(self)

    def wait_ready(self) -> float:
        """Wait until it serves; returns the seconds since the process was started, to 5 ms.

        Raises:
            ProcessError: it ended instead, or it took more than a minute.
        """
        while not self.is_ready():
            if end := self.end:
                raise ProcessError(end)
            if time.perf_counter() - self.began > _START:
                raise ProcessError(f"not ready within {_START:g} s: {self._last_line()}")
            time.sleep(_POLL)
        return time.perf_counter() - self.began

    def is_ready(self) -> bool:
        """Whether it serves."""
        raise NotImplementedError

    def pin(self, core: int) -> None:
        """Let all of its threads run on one CPU core only, from now on."""
        for thread in Path(f"/proc/{self._process.pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {core})

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    @property
    def end(self) -> str:
        """How it ended, in words; empty while it runs."""
        code = self._process.poll()
        return "" if code is None else f"the process ended with {code}: {self._last_line()}"

    def _last_line(self) -> str:
        lines = self._log.read_text(errors="replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "it printed nothing")


class Process(Program):
    """A module of this project that serves HTTP, its stderr holding the access log.

    Args:
        module: what `python -m` runs, and with which arguments.
        core, folder, settings: as for `Program`.
    """

    def __init__(self, *module: str, core: int | None, folder: Path, **settings: str) -> None:
        secret_folder = folder / "secrets"
        secret_folder.mkdir(exist_ok=True)
        port = free_port()
        fixed = {
            "PYTHONHASHSEED": "0",  # one process after the other has its dictionaries in the same order
            "SECRETS_DIR": str(secret_folder),  # and not those of the machine
            "MCP_PORT": str(port),
            "DRAIN_SECONDS": "0",
        }
        super().__init__(sys.executable, "-m", *module, port=port, core=core, folder=folder, **(fixed | settings))

    def is_ready(self) -> bool:
        """Whether `/readyz` says 200."""
        return _ready(self.port)

    def cpu_seconds(self) -> float:
        """User and system time since it was started, of all its threads, those that have ended too."""
        return cpu_seconds_of(self._process.pid)

    def rss_mb(self) -> float:
        """Resident memory in MB (10⁶ bytes)."""
        return rss_mb_of(self._process.pid)

    def empty_log(self) -> None:
        """Forget what it has logged."""
        os.truncate(self._log, 0)

    def requests_logged(self) -> int:
        """How many lines of the access log tell of a request, since the log was emptied."""
        return self._log.read_bytes().count(b"POST /mcp")


def cpu_seconds_of(pid: int) -> float:
    """A process's user and system time, of all its threads, those that have ended too.

    The same sum as in `/proc/<pid>/stat`, but to the nanosecond rather than to the tick of 10 ms.
    """
    return time.clock_gettime((~pid << 3) | 2)  # MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED)


def rss_mb_of(pid: int) -> float:
    """A process's resident memory in MB (10⁶ bytes), exact: the figure in `/proc/<pid>/status` may lag behind."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    (kibibytes,) = (line.split()[1] for line in rollup.splitlines() if line.startswith("Rss:"))
    return int(kibibytes) * 1024 / 1e6


def stop_all() -> None:
    """End what an interruption left running."""
    for process in tuple(_running):
        process.stop()


def _ready(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            return connection.recv(64).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


def free_port() -> int:
    """A port that nobody listens on, below those that the kernel gives to outgoing connections.

    Asking for one of those again and again until somebody listens there can end in a connection with oneself.
    """
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
