"""The deadline of the current call, for all code that works for this call."""

import time
from contextvars import ContextVar

END: ContextVar[float | None] = ContextVar("deadline", default=None)
"""The deadline by the monotonic clock. Tools in threads can read this clock, although they have no event loop."""


def until(seconds: float | None) -> None:
    """Set the deadline of this context to `seconds` from now. An earlier deadline stays.

    None removes the deadline, for work that continues after its call has ended.
    """
    if seconds is None:
        END.set(None)
        return
    end, known = time.monotonic() + seconds, END.get()
    END.set(end if known is None else min(end, known))


def remaining() -> float | None:
    """Return the remaining seconds, 0 after the deadline, or None without a deadline."""
    end = END.get()
    return None if end is None else max(0.0, end - time.monotonic())
