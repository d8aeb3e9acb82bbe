"""A circuit breaker for a Redis: while it does not answer, commands fail at once instead of waiting for it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context

logger = logging.getLogger(__name__)

_PAUSE_SECONDS = 0.5
"""Pause between two probes, in seconds."""


class RedisBreaker:
    """A breaker that is closed while Redis answers.

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
        """Open the breaker, and end all waits of `ending`."""
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
