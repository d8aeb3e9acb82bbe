"""The processes that a study starts: servers and other programs."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.interruption import held

PACKAGE = Path(__file__).parent.parent
"""The folder of the package `benchmarks`. Programs that a study starts import it, too."""
ROOT = PACKAGE.parent.parent
"""The repository's folder. Programs run in it."""

_running: list["Program"] = []
CORES = os.sched_getaffinity(0)
"""Cores of this process before a study chose one of them."""

_POLL = 0.005
_START = 60.0
_STOP = 15.0


class ProcessError(Exception):
    """A process does not serve; `str()` says why in one line."""


class Program:
    """A program that listens on a port of 127.0.0.1 and ends with its `with` block.

    Args:
        command: Command line.
        port: Port that the program listens on.
        core: Number of the CPU core that it runs on; None: any core.
        folder: Folder for its output.
        settings: Environment variables. The program inherits only PATH, HOME, TMPDIR and the locale from this process.
            A Python program can import `benchmarks`.
    """

    runs_in_folder = False
    """Whether the working directory is `folder`, for a program that writes files there. If not, it is the root of the
    repository."""

    def __init__(self, *command: str, port: int, core: int | None, folder: Path, **settings: str) -> None:
        self.port = port
        self._log = folder / f"{port}.log"
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR") if name in os.environ}
        kept["PYTHONPATH"] = str(PACKAGE)
        self.began = time.perf_counter()
        cwd = folder if self.runs_in_folder else ROOT
        with self._log.open("ab") as log, held():  # In append mode the log can be emptied while it is written.
            self._process = subprocess.Popen(command, cwd=cwd, env=kept | settings, stdout=log, stderr=log)
            _running.append(self)
        os.sched_setaffinity(self.pid, CORES if core is None else {core})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the program and wait until it has ended."""
        self._process.terminate()
        try:
            self._process.wait(_STOP)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self in _running:
            _running.remove(self)

    def kill(self) -> None:
        """End the program with SIGKILL."""
        if not self.end:
            os.kill(self.pid, signal.SIGKILL)
        self.stop()

    def wait_ready(self) -> float:
        """Wait until the program serves and return the seconds since its start, with a precision of 5 ms.

        Raises:
            ProcessError: The program ended, or was not ready within one minute.
        """
        while not self.is_ready():
            if end := self.end:
                raise ProcessError(end)
            if time.perf_counter() - self.began > _START:
                raise ProcessError(f"not ready within {_START:g} s: {self._last_line()}")
            time.sleep(_POLL)
        return time.perf_counter() - self.began

    def is_ready(self) -> bool:
        """Return True if the program serves."""
        raise NotImplementedError

    def pin(self, core: int) -> None:
        """Keep all threads of the program and of its children on one CPU core from now on."""
        for pid in (self.pid, *children_of(self.pid)):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                os.sched_setaffinity(int(thread.name), {core})

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def end(self) -> str:
        """Exit code and last output; empty while the program runs."""
        code = self._process.poll()
        return "" if code is None else f"the process ended with {code}: {self._last_line()}"

    def cpu_seconds(self) -> float:
        """Return the user and system time since the start, of all threads."""
        return cpu_seconds_of(self.pid)

    def rss_mb(self) -> float:
        """Return the resident memory in MB (10⁶ bytes)."""
        return rss_mb_of(self.pid)

    def _last_line(self) -> str:
        lines = self._log.read_text(errors="replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "no output")


class Process(Program):
    """A process of a Python module that serves HTTP and writes its access log to stderr.

    Args:
        module: Module and arguments for `python -m`.
        core, folder, settings: See `Program`. `MCP_PORT` is a free port by default.
    """

    def __init__(self, *module: str, core: int | None, folder: Path, **settings: str) -> None:
        port = int(settings.get("MCP_PORT") or free_port())
        fixed = fixed_settings(folder, port)
        super().__init__(sys.executable, "-m", *module, port=port, core=core, folder=folder, **(fixed | settings))

    def is_ready(self) -> bool:
        """Return True if `/readyz` answers 200."""
        return answers(("127.0.0.1", self.port))

    def empty_log(self) -> None:
        """Empty the access log."""
        os.truncate(self._log, 0)

    def requests_logged(self) -> int:
        """Return the number of requests in the access log since it was emptied."""
        return self._log.read_bytes().count(b"POST /mcp")


def fixed_settings(folder: Path, port: int) -> dict[str, str]:
    """Return the environment variables of all servers that a study starts."""
    secret_folder = folder / "secrets"
    secret_folder.mkdir(exist_ok=True)
    return {
        "PYTHONHASHSEED": "0",  # All processes hash strings in the same way.
        "SECRETS_DIR": str(secret_folder),  # The machine's own secrets must not be used.
        "MCP_PORT": str(port),
        "DRAIN_SECONDS": "0",
    }


def pack_settings(pack: str) -> dict[str, str]:
    """Return the environment variables of a replica with the component pack `benchmarks.packs.<pack>`."""
    return {
        "MCP_COMPONENTS": f"benchmarks.packs.{pack}",
        "REPLICA_NAME": "benchmark",
        # The load keeps its connections. A new connection per 1,000 requests would cost 0.1 percent.
        "MAX_REQUESTS_PER_CONNECTION": "0",
        "MAX_CONNECTION_AGE_SECONDS": "0",
    }


def replica(pack: str, core: int | None, folder: Path, *module: str, **settings: str) -> Process:
    """Start this project's server, or another module, with the component pack `benchmarks.packs.<pack>`."""
    return Process(*(module or ("server",)), core=core, folder=folder, **(pack_settings(pack) | settings))


def cpu_seconds_of(pid: int) -> float:
    """Return the user and system time of a process, as in `/proc/<pid>/stat` but with a precision of 1 ns."""
    return time.clock_gettime((~pid << 3) | 2)  # MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED)


def rss_mb_of(pid: int) -> float:
    """Return the resident memory of a process in MB (10⁶ bytes): an exact count, unlike `/proc/<pid>/status`."""
    return _memory_mb(pid, "Rss:")


def pss_mb_of(pid: int) -> float:
    """Return the memory of a process in MB. Of a page that n processes share, it has one n-th."""
    return _memory_mb(pid, "Pss:")


def _memory_mb(pid: int, field: str) -> float:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    (kibibytes,) = (line.split()[1] for line in rollup.splitlines() if line.startswith(field))
    return int(kibibytes) * 1024 / 1e6


def children_of(pid: int) -> list[int]:
    """Return the ids of the child processes of a process."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for thread in threads for child in (thread / "children").read_text().split()]


def stop_all() -> None:
    """Stop the programs that still run."""
    for process in tuple(_running):
        process.stop()


def answers(address: tuple[str, int] | str) -> bool:
    """Return True if `/readyz` answers 200 at a TCP address or at the path of a Unix socket."""
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    try:
        with socket.socket(family) as connection:
            connection.settimeout(1)
            connection.connect(address)
            connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return connection.recv(64).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


def free_port() -> int:
    """Return a free port below the range of ports that the kernel gives to outgoing connections.

    A program that polls a port of that range may connect to itself.
    """
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
