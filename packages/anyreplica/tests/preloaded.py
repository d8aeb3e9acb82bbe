"""Fork servers from a process that has already imported their modules, so that they start faster.

Imports take nine tenths of a start of `python -m server`, and tests start it hundreds of times. Forked servers share
only the imported modules and the values that Python read when it started.
"""

import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

_ROOT = Path(__file__).parents[3]

_LAZY = ["docket", "fastmcp.server.auth.oidc_proxy", "fastmcp.server.auth.providers.in_memory"]
_LAZY += ["fastmcp.server.auth.providers.introspection", "fastmcp.server.sessions", "griffe"]
_LAZY += ["anyreplica.http.uvicorn.protocol", "anyreplica.app", "anyreplica.cli.main", "anyreplica.cli.run"]
_LAZY += ["anyreplica.cli.worker", "server.server"]
"""Modules that servers import, some of them only when they need them."""

_PACKAGES = {"anyreplica", "server", "tests"}
"""Packages whose modules are run in a forked process."""
_READ_AT_START = {"AUTH", "CLOSING_SECONDS", "CURRENCY", "DOCUMENTS", "IDP", "JWKS", "LOOKUPS", "RUNS"}
_READ_AT_START |= {"TOKEN_SECONDS", "UPSTREAM", "UPSTREAM_URL"}
"""Environment variables of the tests' own servers. A server reads them when it starts, as it reads its settings."""
_MAX_MESSAGE_BYTES = 1 << 18
"""Maximum size of a message in bytes. A message contains a command line and an environment."""


class Forked:
    """The process of a forked server, with the methods of `subprocess.Popen` that the tests use."""

    def __init__(self, pid: int, end: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._end = end
        """The pipe that delivers the exit code when the process has ended."""

    def poll(self) -> int | None:
        """Return the exit code, which is negative for a signal, or None while the process runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the process and return its exit code, or raise `subprocess.TimeoutExpired`."""
        if self.returncode is None:
            awaited = select.poll()
            awaited.register(self._end, select.POLLIN)
            if not awaited.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired("python -m server", timeout or 0)
            self.returncode = int(os.read(self._end, 16))
            os.close(self._end)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal if the process still runs."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM to the process."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to the process."""
        self.send_signal(signal.SIGKILL)


class Preloaded:
    """The process from which servers are forked. Its environment and theirs differ in settings only."""

    def __init__(self, environment: Mapping[str, str], settings: set[str]) -> None:
        self._settings = settings | _READ_AT_START
        self._common = self._others(environment)
        self._lock = threading.Lock()
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                cwd=_ROOT,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def _others(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that are not settings, without the variable that names the running test."""
        names = environment.keys() - self._settings - {"PYTEST_CURRENT_TEST"}
        return {name: environment[name] for name in names}

    def fits(self, command: Sequence[str], environment: Mapping[str, str]) -> bool:
        """Return whether a forked server behaves exactly like one in a new Python process with these arguments."""
        option, module, *rest = command
        return (
            option == "-m"
            and module.partition(".")[0] in _PACKAGES
            and "--reload" not in rest  # its processes import the main module again
            and self._others(environment) == self._common
        )

    def start(self, command: Sequence[str], environment: Mapping[str, str], output: IO[str]) -> Forked:
        """Fork a server that writes its output to a file. The arguments are those of `fits`."""
        end, theirs = os.pipe()
        message = json.dumps([command, dict(environment)]).encode()
        with self._lock:
            socket.send_fds(self._channel, [message], [output.fileno(), theirs])
            os.close(theirs)
            return Forked(int(self._channel.recv(16)), end)

    def close(self) -> None:
        """End this process. The forked servers continue to run."""
        self._channel.close()
        self._process.wait()


def main() -> None:
    """Import the modules and fork one process per message. Each fork runs the module of its command line."""
    for name in _LAZY:
        importlib.import_module(name)
    gc.freeze()
    _, module, *arguments = _serve(socket.socket(fileno=int(sys.argv[1])))
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _serve(channel: socket.socket) -> list[str]:
    """Fork a process for each message. Return only in the forked process, with the arguments of Python."""
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    ends: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([channel.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _report_ends(ends)
        if channel.fileno() not in ready:
            continue
        message, files, _, _ = socket.recv_fds(channel, _MAX_MESSAGE_BYTES, 2)
        if not message:
            os._exit(0)
        output, end = files
        pid = os.fork()
        if not pid:
            command, environment = json.loads(message)
            _become(output, environment)
            channel.detach()
            return list(command)
        os.close(output)
        ends[pid] = end
        channel.send(b"%d" % pid)


def _report_ends(ends: dict[int, int]) -> None:
    """Write the exit code of each ended process to the pipe of that process."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            end = ends.pop(ended[0])
            with contextlib.suppress(BrokenPipeError):
                os.write(end, b"%d" % os.waitstatus_to_exitcode(ended[1]))
            os.close(end)


def _become(output: int, environment: dict[str, str]) -> None:
    """Give a forked process a new session, the given environment, and no open files except the usual three."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.environ.clear()
    os.environ.update(environment)


if __name__ == "__main__":
    main()
