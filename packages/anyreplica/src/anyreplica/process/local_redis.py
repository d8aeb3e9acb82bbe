"""The Redis of local replicas: `redis-server` from PATH, or a stand-in in this process. It ends with the replicas."""

import contextlib
import logging
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from anyreplica.process.embedded_redis import EmbeddedRedis
from anyreplica.process.forking import for_sockets
from anyreplica.settings import CoreSettings
from anyreplica.settings.errors import StartupError, require_extra

logger = logging.getLogger(__name__)

_START_SECONDS = 5.0

_STOP_SECONDS = 2.0

_PAUSE_SECONDS = 0.01

_OLDEST = (6, 2)
"""Oldest version of Redis that has all commands that jobs need (XAUTOCLAIM)."""

_GUARDED = 'exec 3<&0; { read -r _ <&3; kill "$$" 2>/dev/null; } & exec 3<&-; exec "$@" </dev/null'
"""A shell script that becomes the command in its arguments and ends it when the standard input of the script closes.

The other end of that pipe is in the supervisor, so the kernel closes it whenever the supervisor ends, even by SIGKILL.
"""

_GUIDE = 'the guide "Local replicas"'


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


def missing_urls(settings: CoreSettings, *, jobs: bool) -> list[str]:
    """Return which of `REDIS_URL` and `JOBS_URL` the operator has not set, without `JOBS_URL` if there are no jobs."""
    names = ["REDIS_URL", "JOBS_URL"] if jobs else ["REDIS_URL"]
    return [name for name in names if name.lower() not in settings.model_fields_set]


class LocalRedis:
    """A Redis on a private Unix socket.

    Raises:
        StartupError: There is no folder for the socket.
    """

    def __init__(self) -> None:
        try:
            # Only its user can open such a folder.
            self._folder = Path(tempfile.mkdtemp(prefix="anyreplica-", dir=for_sockets()))
        except OSError as error:
            raise StartupError(_refusal(error)) from None
        self._path = self._folder / "redis.sock"
        try:
            self._server = self._start()
        except BaseException:
            self._remove()
            raise

    @property
    def url(self) -> str:
        """The URL for the replicas. The stand-in speaks version 2 of the protocol only."""
        return f"unix://{self._path}?protocol=2"

    def restart_if_ended(self) -> None:
        """Start a new Redis if the present one has ended. The new Redis has no data.

        Raises:
            StartupError: no new Redis can start.
        """
        if (why := self._server.ended) is not None:
            logger.warning("The data of the Redis of these replicas (jobs, sessions, …) is lost: %s", why)
            self._server.close()
            self._server = self._start()

    def close(self) -> None:
        """End the Redis and delete its folder."""
        self._server.close()
        self._remove()

    def _remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> RedisProcess | EmbeddedRedis:
        program = shutil.which("redis-server")
        if program is not None:
            try:
                server = RedisProcess(program, self._path)
            except OSError as error:
                logger.warning("%s does not start: %s", program, error)
            else:
                _log(f"redis-server {server.version} from PATH")
                return server
        self._path.unlink(missing_ok=True)
        require_extra(
            "local", "REDIS_URL: the Redis of local replicas", ", install redis-server, or start them with --no-redis"
        )
        try:
            stand_in = EmbeddedRedis(str(self._path))
        except OSError as error:
            raise StartupError(_refusal(error)) from None
        _log("an embedded stand-in" if program else "an embedded stand-in, because redis-server is not on PATH")
        return stand_in


@contextmanager
def running(variables: Sequence[str]) -> Iterator[LocalRedis]:
    """Run a Redis inside the block, and set these variables to its URL for the processes that start in the block."""
    redis = LocalRedis()
    try:
        os.environ.update(dict.fromkeys(variables, redis.url))
        yield redis
    finally:
        redis.close()


def _log(what: str) -> None:
    text = "Redis for these replicas: %s, in memory, gone when they stop. A stack needs its own Redis: see %s"
    logger.info(text, what, _GUIDE)


def _refusal(error: OSError) -> str:
    reason = error.strerror or error
    return f"No socket for the Redis of these replicas: {reason}; set TMPDIR to another folder, or use --no-redis."
