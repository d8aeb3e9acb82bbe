"""A `redis-server` from PATH, as a child of this process, for local replicas."""

import contextlib
import re
import socket
import subprocess
import time
from pathlib import Path

_START_SECONDS = 5.0
_STOP_SECONDS = 2.0
_PAUSE_SECONDS = 0.01
_OLDEST = (6, 2)
"""Oldest version of Redis that has all commands that jobs need (XAUTOCLAIM)."""

_GUARDED = 'exec 3<&0; { read -r _ <&3; kill "$$" 2>/dev/null; } & exec 3<&-; exec "$@" </dev/null'
"""A shell script that becomes the command in its arguments and ends it when the standard input of the script closes.

The other end of that pipe is in the supervisor, so the kernel closes it whenever the supervisor ends, even by SIGKILL.
"""


class RedisProcess:
    """A Redis that listens on a Unix socket only, keeps its data in memory, and ends with this process.

    Args:
        program: Path of `redis-server`.
        path: Path of the Unix socket. The folder must be private, because there is no password.

    Raises:
        OSError: Redis does not start; the text says why.
    """

    def __init__(self, program: str, path: Path) -> None:
        self._log = path.with_name("redis.log")
        only_here = ("--port", "0", "--unixsocket", str(path), "--unixsocketperm", "700", "--dir", str(path.parent))
        in_memory = ("--save", "", "--appendonly", "no", "--maxmemory", "256mb", "--loglevel", "warning")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _GUARDED, "sh", program, *only_here, *in_memory],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C must not reach Redis: draining replicas still need it
            )
        try:
            self.version = self._answer(path)
            if tuple(map(int, self.version.split(".")[:2])) < _OLDEST:
                raise OSError(f"its version is {self.version}; jobs need {'.'.join(map(str, _OLDEST))} or newer")
        except BaseException:
            self.close()
            raise

    @property
    def ended(self) -> str | None:
        """Why it has ended; None while it runs."""
        code = self._process.poll()
        return None if code is None else f"it ended with exit code {code}"

    def close(self) -> None:
        """End Redis."""
        if self._process.stdin is not None:
            self._process.stdin.close()  # first end the shell that waits for the end of this process
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _answer(self, path: Path) -> str:
        """Wait until Redis answers, and return its version."""
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until:
            if self.ended is not None:
                raise OSError(self._last_words() or self.ended)
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
                client.settimeout(1)
                client.connect(str(path))
                client.sendall(b"INFO server\r\n")
                if found := re.search(rb"redis_version:([0-9]+\.[0-9.]+)", client.recv(4096)):
                    return found[1].decode()
            time.sleep(_PAUSE_SECONDS)
        raise OSError(f"it did not answer within {_START_SECONDS:g} s")

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")
