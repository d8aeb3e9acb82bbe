"""Until when the call that is being answered has time, for whatever works for it."""

import time
from contextvars import ContextVar

END: ContextVar[float | None] = ContextVar("deadline", default=None)
"""By the monotonic clock, which tools in threads can read, too; they have no event loop to ask."""


def until(seconds: float | None) -> None:
    """Give what runs in this context so much time from now, and never more than it has already.

    None is no end at all, for work that outlives the call that began it.
    """
    if seconds is None:
        END.set(None)
        return
    end, known = time.monotonic() + seconds, END.get()
    END.set(end if known is None else min(end, known))


def remaining() -> float | None:
    """Seconds that are left, 0 when the time is over; None if there is no end."""
    end = END.get()
    return None if end is None else max(0.0, end - time.monotonic())
