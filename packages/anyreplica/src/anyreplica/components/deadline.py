"""The deadline of the current call, for all code that works for this call."""

import asyncio
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

END: ContextVar[float | None] = ContextVar("deadline", default=None)
"""The deadline, as a time of the monotonic clock minus the time of the call's pauses. Tools in threads can read this
clock, although they have no event loop."""


class Pauses:
    """The time for which a call has waited for its client. This time does not count for the call's deadline."""

    __slots__ = ("_open", "_since", "_total")

    def __init__(self) -> None:
        self._open = 0
        self._since = 0.0
        self._total = 0.0

    @property
    def is_open(self) -> bool:
        """Whether the call waits for its client now."""
        return self._open > 0

    @property
    def seconds(self) -> float:
        """The time of all pauses, in seconds, including the current one."""
        return self._total + (time.monotonic() - self._since if self._open else 0.0)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Count the time inside the `with` block. If several blocks are open at once, their time counts once."""
        if not self._open:
            self._since = time.monotonic()
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1
            if not self._open:
                self._total += time.monotonic() - self._since


PAUSES: ContextVar[Pauses | None] = ContextVar("pauses", default=None)
"""The pauses of the current call, or None if the call cannot ask its client."""

_POLL_SECONDS = 0.25
"""Pause between two checks of a task whose time limit has ended, while the call waits for its client."""


def set_deadline(seconds: float | None) -> None:
    """Set the deadline of this context to `seconds` from now. An earlier deadline stays.

    None removes the deadline, for work that continues after its call has ended.
    """
    if seconds is None:
        END.set(None)
        return
    end, known = time.monotonic() - _paused() + seconds, END.get()
    END.set(end if known is None else min(end, known))


def remaining_seconds() -> float | None:
    """Return the remaining seconds, 0 after the deadline, or None without a deadline."""
    end = END.get()
    return None if end is None else max(0.0, end - (time.monotonic() - _paused()))


class TimeLimit:
    """A time limit from now on. The pauses of the current call do not count. None: no limit."""

    __slots__ = ("_end", "_pauses")

    def __init__(self, seconds: float | None) -> None:
        self._pauses = PAUSES.get()
        self._end = math.inf if seconds is None else time.monotonic() - _paused() + seconds

    def look(self) -> float:
        """Return the seconds after which to look at `has_ended` again."""
        left = self._end - time.monotonic()
        if self._pauses is None:
            return max(left, 0.0)
        return max(left + self._pauses.seconds, _POLL_SECONDS if self._pauses.is_open else 0.0)

    def has_ended(self) -> bool:
        """Return whether the time is over. It is never over during a pause."""
        if self._pauses is None:
            return time.monotonic() >= self._end
        return not self._pauses.is_open and time.monotonic() - self._pauses.seconds >= self._end


async def wait_within(task: asyncio.Future[Any], seconds: float) -> bool:
    """Wait until a task is done, for at most `seconds` without the pauses. Return whether the task is done."""
    limit = TimeLimit(seconds)
    while True:
        done, _ = await asyncio.wait({task}, timeout=limit.look())
        if done or limit.has_ended():
            return task.done()


def _paused() -> float:
    pauses = PAUSES.get()
    return 0.0 if pauses is None else pauses.seconds
