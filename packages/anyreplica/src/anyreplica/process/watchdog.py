"""A watchdog that ends a replica with a blocked event loop, and logs where it is blocked."""

import asyncio
import faulthandler
import logging
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

logger = logging.getLogger(__name__)

EXIT_STALLED = 70
"""Exit code of a replica that the watchdog ended (EX_SOFTWARE in sysexits.h)."""

_TICK = 0.5
_MARGIN = 2 * _TICK
"""Additional time of faulthandler's timer, in seconds. The watchdog must act first, because it logs more."""


@asynccontextmanager
async def watch(stall_seconds: float) -> AsyncIterator[None]:
    """End the process if its event loop has not turned for `stall_seconds`. 0: never.

    Nothing inside a process can interrupt an `async` function that blocks. The supervisor or orchestrator replaces an
    ended process much sooner than a process that only fails its health checks.

    Time in which the whole process is stopped (SIGSTOP, a paused container) does not count for the watchdog. It does
    count for the timer of faulthandler, which runs in C and ends the process after a little more than twice
    `stall_seconds`.
    """
    if not stall_seconds:
        yield
        return
    beats = 0
    loop = asyncio.get_running_loop()
    stop = threading.Event()

    def beat() -> None:
        nonlocal beats
        beats += 1
        if not stop.is_set():
            # A timer in C also works while some code, such as an endless regular expression, holds the global
            # interpreter lock.
            faulthandler.dump_traceback_later(2 * stall_seconds + _MARGIN, exit=True, file=sys.__stderr__ or sys.stderr)
            loop.call_later(_TICK, beat)

    def guard() -> None:
        seen, missed = -1, 0.0
        while not stop.wait(_TICK):
            missed = missed + _TICK if beats == seen else 0.0
            seen = beats
            if missed > stall_seconds:
                faulthandler.cancel_dump_traceback_later()  # this timer must not end the process during the next lines
                text = "The event loop was blocked for %g s (LOOP_STALL_SECONDS); ending this replica. Threads:"
                logger.critical(text, stall_seconds)
                faulthandler.dump_traceback(sys.__stderr__ or 2)
                os._exit(EXIT_STALLED)

    beat()
    threading.Thread(target=guard, name="watchdog", daemon=True).start()
    try:
        yield
    finally:
        stop.set()
        faulthandler.cancel_dump_traceback_later()
