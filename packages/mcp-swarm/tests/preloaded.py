"""Servers that start in a fraction of the time: forked from a process that has imported what they need.

Nine tenths of what it costs to start `python -m tests.sample` are imports, and the tests start it hundreds of times. A
server that is started so is a process of its own in a session of its own, with its own environment and log. Only what
Python read when it started, and what was imported, it has in common with the others.
"""

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, NoReturn

_ROOT = Path(__file__).parents[3]

_LAZY = (
    "docket",
    "fastmcp.server.sessions",
    "griffe",
    "mcp_swarm.http.uvicorn.protocol",
    "mcp_swarm.app",
    "mcp_swarm.cli.run",
    "mcp_swarm.cli.worker",
    "tests.sample.server",
)
"""What a server imports beside `mcp_swarm.cli.main`, some of it only when it is needed."""

_COMMANDS: tuple[list[str], ...] = ([], ["worker"])
"""Those that run one process; supervisors start others, for which theirs must be `python -m tests.sample`."""

_MOST = 1 << 18
"""Bytes of a message: a command line and an environment."""


class Forked:
    """A server's process, with what `subprocess.Popen` has to end it and to ask for its end."""

    def __init__(self, pid: int, end: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._end = end
        """Where its exit code can be read when it has ended."""

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; returns its exit code.

        Raises:
            subprocess.TimeoutExpired: it runs on.
        """
        if self.returncode is None:
            awaited = select.poll()
            awaited.register(self._end, select.POLLIN)
            if not awaited.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired("python -m tests.sample", timeout or 0)
            self.returncode = int(os.read(self._end, 16))
            os.close(self._end)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


class Preloaded:
    """The process from which servers are forked, started when the first one is.

    Args:
        environment: its own, which theirs may differ from in settings only.
        settings: names of environment variables that servers read when they start, and not when they are imported.
    """

    def __init__(self, environment: Mapping[str, str], settings: set[str]) -> None:
        self._settings = settings
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
        """What isn't a setting; the name of the test that runs now is in the environment, too."""
        names = environment.keys() - self._settings - {"PYTEST_CURRENT_TEST"}
        return {name: environment[name] for name in names}

    def fits(self, command: Sequence[str], environment: Mapping[str, str]) -> bool:
        """Whether a server that is forked is no other than one that is started anew."""
        return list(command) in _COMMANDS and self._others(environment) == self._common

    def start(self, command: Sequence[str], environment: Mapping[str, str], output: IO[str]) -> Forked:
        """Start a server that writes to a file."""
        end, theirs = os.pipe()
        message = json.dumps([command, dict(environment)]).encode()
        with self._lock:
            socket.send_fds(self._channel, [message], [output.fileno(), theirs])
            os.close(theirs)
            return Forked(int(self._channel.recv(16)), end)

    def close(self) -> None:
        """End it; servers run on."""
        self._channel.close()
        self._process.wait()


def main() -> NoReturn:
    """Import, and fork for each message; in each fork, be the server."""
    server = importlib.import_module("mcp_swarm.cli.main")
    for name in _LAZY:
        importlib.import_module(name)
    gc.freeze()
    command = _serve(socket.socket(fileno=int(sys.argv[1])))
    sys.argv = ["tests.sample", *command]
    sys.exit(server.main(app="tests.sample.server:create_app"))


def _serve(channel: socket.socket) -> list[str]:
    """Fork a process for each message; returns in these, with their command lines."""
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    ends: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([channel.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _tell(ends)
        if channel.fileno() not in ready:
            continue
        message, files, _, _ = socket.recv_fds(channel, _MOST, 2)
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


def _tell(ends: dict[int, int]) -> None:
    """Write the exit code of each process that has ended to where it is awaited."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            end = ends.pop(ended[0])
            with contextlib.suppress(BrokenPipeError):
                os.write(end, b"%d" % os.waitstatus_to_exitcode(ended[1]))
            os.close(end)


def _become(output: int, environment: dict[str, str]) -> None:
    """Be as a process that was just started: with no file open but the usual three, and with its own environment."""
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
