"""The upkeep of a replica: its memory, and the watchdog of its event loop."""

import asyncio
import ctypes
import faulthandler
import gc
import logging
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from anyreplica.process.frames import author_frame
from anyreplica.process.tasks import background_task

logger = logging.getLogger(__name__)

EXIT_STALLED = 70
"""Exit code of a replica that the watchdog ended (EX_SOFTWARE in sysexits.h)."""

_TICK = 0.5
_MARGIN = 2 * _TICK
"""Additional time of faulthandler's timer, in seconds. The watchdog must act first, because it logs more."""

_BLOCKED_SECONDS = 1.0
"""Time after which the log names the code that blocks the event loop, in seconds."""

_M_MMAP_THRESHOLD = -3
"""A parameter of `mallopt` (mallopt(3))."""

_LARGE = 256 * 1024
"""Minimum size of a memory block that returns to the system when it is freed, in bytes. Without this fixed limit, glibc
raises its own limit up to 32 MB, and the replica keeps the memory of large bodies and replies."""

TRIM_SECONDS = 30.0
"""Time between two calls of `malloc_trim`, in seconds."""


def settle() -> None:
    """Hide all objects of the start from the garbage collector, and return unused memory to the system.

    Otherwise each full collection would visit all modules and models while all requests wait (measured: 33 to 48 ms).
    A ready replica would also need 103 MB of memory instead of 98 MB.
    """
    gc.collect()
    gc.freeze()
    with suppress(OSError, AttributeError):  # only glibc has these functions, and only glibc needs them
        ctypes.CDLL("libc.so.6").mallopt(_M_MMAP_THRESHOLD, _LARGE)
    _trim()


@asynccontextmanager
async def trimming() -> AsyncIterator[None]:
    """Return unused memory to the system every 30 s inside the block.

    glibc returns only the free memory at the end of its heap. After many large requests the heap has gaps everywhere.
    After an attack of 80 s, a replica needed 79 MB more than before. With this function it needed 15 MB more. A trim
    takes some milliseconds and runs in a thread.
    """

    async def trim() -> None:
        while True:
            await asyncio.sleep(TRIM_SECONDS)
            await asyncio.to_thread(_trim)

    async with background_task(trim()):
        yield


def _trim() -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


@asynccontextmanager
async def watch(stall_seconds: float) -> AsyncIterator[None]:
    """End the process if its event loop has not turned for `stall_seconds`. 0: never.

    If a function of an author blocks the event loop for a second, a line of the log names it.

    Nothing inside a process can interrupt an `async` function that blocks. The supervisor or orchestrator replaces an
    ended process much sooner than a process that only fails its health checks.

    Time in which the whole process is stopped (SIGSTOP, a paused container) does not count for the watchdog. It does
    count for the timer of faulthandler, which runs in C and ends the process after a little more than twice
    `stall_seconds`.
    """
    beats = 0
    loop = asyncio.get_running_loop()
    thread = threading.get_ident()
    stop = threading.Event()

    def beat() -> None:
        nonlocal beats
        beats += 1
        if not stop.is_set():
            if stall_seconds:
                # A timer in C also works while some code, such as an endless regular expression, holds the global
                # interpreter lock.
                limit = 2 * stall_seconds + _MARGIN
                faulthandler.dump_traceback_later(limit, exit=True, file=sys.__stderr__ or sys.stderr)
            loop.call_later(_TICK, beat)

    def guard() -> None:
        seen, missed = -1, 0.0
        named = set[str]()
        while not stop.wait(_TICK):
            missed = missed + _TICK if beats == seen else 0.0
            seen = beats
            if missed == _BLOCKED_SECONDS:
                _name_blocking_code(thread, named)
            if stall_seconds and missed > stall_seconds:
                _end(stall_seconds)

    beat()
    threading.Thread(target=guard, name="watchdog", daemon=True).start()
    try:
        yield
    finally:
        stop.set()
        faulthandler.cancel_dump_traceback_later()


def _name_blocking_code(thread: int, named: set[str]) -> None:
    """Log the place in an author's code that blocks a thread, once for each place.

    Args:
        thread: the identity of the thread of the event loop.
        named: the places that were logged.
    """
    frame = author_frame(sys._current_frames().get(thread))  # noqa: SLF001  # Python documents it for debuggers
    if frame is None:
        return
    where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    if where not in named:
        named.add(where)
        logger.warning(
            "%s (%s) has blocked the event loop for %g s, and this replica answers no other request meanwhile; write "
            "the function as a plain def, or call what blocks with asyncio.to_thread",
            where,
            frame.f_code.co_name,
            _BLOCKED_SECONDS,
        )


def _end(stall_seconds: float) -> None:
    """End the process, and log the stacks of all threads."""
    faulthandler.cancel_dump_traceback_later()  # this timer must not end the process during the next lines
    text = "The event loop was blocked for %g s (LOOP_STALL_SECONDS); ending this replica. Threads:"
    logger.critical(text, stall_seconds)
    faulthandler.dump_traceback(sys.__stderr__ or 2)
    os._exit(EXIT_STALLED)
