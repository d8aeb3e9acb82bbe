"""What happens to work that needs Redis while Redis cannot be reached: three policies.

- `Outage.required`: the work fails, and its caller gets an error that says when to try again.
- `Outage.best_effort`: the request goes on without the work.
- `retry_for` (`shared/lost_redis.py`): the work is tried again for some seconds, because it belongs to something that
  waits anyway. If it fails after that, one of the two other policies holds.

The time limits of the commands come from the Redis client: see `shared/lost_redis.py`. For each consequence of an
outage, the log gets one line when the outage begins, and one line when it is over.

`RedisBreaker` is a circuit breaker: while Redis does not answer, quick commands fail at once.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import Context

from anyreplica.shared.lost_redis import reason, translate_redis_errors

logger = logging.getLogger(__name__)


class Outage:
    """One consequence of an outage of Redis.

    Args:
        logger: the logger of the module that uses Redis.
        consequence: what this replica does during the outage, for the log.

    Attributes:
        is_on: whether Redis could not be reached the last time.
    """

    def __init__(self, logger: logging.Logger, consequence: str) -> None:
        self._logger = logger
        self._consequence = consequence
        self.is_on = False

    @contextmanager
    def required(self, refusal: Callable[[str], Exception]) -> Iterator[None]:
        """If Redis cannot be reached inside the `with` block, raise `refusal(reason)`."""
        was_on = self.is_on
        try:
            with translate_redis_errors():
                yield
        except OSError as error:
            self.begin(error)
            raise refusal(reason(error)) from None
        if was_on:  # a block that began before the outage does not show that the outage is over
            self.end()

    def best_effort(self) -> "AbstractContextManager[None, bool]":
        """If Redis cannot be reached inside the `with` block, go on after the block."""
        return self._best_effort()  # type: ignore[return-value]  # the checker must know that it may suppress errors

    @contextmanager
    def _best_effort(self) -> Iterator[None]:
        was_on = self.is_on
        try:
            with translate_redis_errors():
                yield
        except OSError as error:
            self.begin(error)
        else:
            if was_on:
                self.end()

    def begin(self, error: Exception) -> None:
        """Note that Redis could not be reached."""
        if not self.is_on:
            self._logger.warning("Redis can't be reached: %s: %s", self._consequence, reason(error))
        self.is_on = True

    def end(self) -> None:
        """Note that Redis could be reached."""
        if self.is_on:
            self._logger.warning("Redis can be reached again. Until now: %s", self._consequence)
        self.is_on = False


_PAUSE_SECONDS = 0.5
"""Pause between two probes, in seconds."""


class RedisBreaker:
    """A circuit breaker for a Redis: it is closed while Redis answers. While it is open, quick commands fail at once.

    The user of the breaker calls `open` after a command that got no answer in time. From then on, commands fail at
    once. A task of the breaker probes Redis, one probe at a time, and closes the breaker when Redis answers in time.

    Args:
        name: what does not answer, for the log.
        probe: asks Redis something, and returns whether the answer came in time. It has a time limit of its own.
        pause_seconds: pause between two probes, in seconds.
    """

    def __init__(
        self, name: str, probe: Callable[[], Awaitable[bool]], *, pause_seconds: float = _PAUSE_SECONDS
    ) -> None:
        self._name = name
        self._probe = probe
        self._pause_seconds = pause_seconds
        self._probing: asyncio.Task[None] | None = None
        self._waits: set[asyncio.Timeout] = set()

    @property
    def is_open(self) -> bool:
        """Whether commands must fail at once."""
        return self._probing is not None and not self._probing.done()

    def open(self) -> None:
        """Open the breaker. All waits inside an `ending` block end at once, with TimeoutError."""
        if self.is_open:
            return
        logger.warning("%s does not answer: what needs it fails at once until it answers again", self._name)
        loop = asyncio.get_running_loop()
        # Neither the task factory, which is for tasks of components, nor the context of the request whose command
        # failed: the task lives longer than this request.
        self._probing = asyncio.Task(self._probe_until_answered(), loop=loop, context=Context())
        for wait in self._waits:
            if not wait.expired():
                wait.reschedule(loop.time())

    @contextmanager
    def ending(self, wait: asyncio.Timeout) -> Iterator[None]:
        """End a wait with TimeoutError when the breaker opens, inside the `with` block."""
        self._waits.add(wait)
        try:
            yield
        finally:
            self._waits.discard(wait)

    async def stop(self) -> None:
        """End the probe. The breaker is closed afterwards."""
        if self._probing is not None:
            self._probing.cancel()
            with suppress(asyncio.CancelledError):
                await self._probing

    async def _probe_until_answered(self) -> None:
        while not await self._probe():  # noqa: ASYNC110  # a pause between two probes
            await asyncio.sleep(self._pause_seconds)
        logger.warning("%s answers again", self._name)
