"""The Redis of local replicas: `redis-server` from PATH, or a stand-in in this process. It ends with the replicas."""

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from anyreplica.process.embedded_redis import EmbeddedRedis
from anyreplica.process.redis_process import RedisProcess
from anyreplica.process.temporary_folder import for_sockets
from anyreplica.settings import Settings
from anyreplica.settings.errors import StartupError
from anyreplica.settings.extras import require_extra

logger = logging.getLogger(__name__)

_GUIDE = 'the guide "Local replicas"'


def missing_urls(settings: Settings, *, jobs: bool) -> list[str]:
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
