"""One replica: its name, its options for uvicorn, and its process, with its memory and the watchdog of its loop.

The processes of one replica (`WORKERS`) ask each other for their metrics. Each listens on a Unix socket in a folder
that only their user can open. It writes one page to each client, and closes the connection.
"""

import asyncio
import ctypes
import faulthandler
import gc
import importlib.util
import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp

from anyreplica.process.event_loop import background_task, hide_late_lookups, stop_exits
from anyreplica.process.frames import author_frame
from anyreplica.process.lifecycle import Lifecycle, end_now, flush_logs
from anyreplica.process.listening import hosts, release
from anyreplica.settings import CoreSettings
from anyreplica.settings.errors import StartupError

logger = logging.getLogger(__name__)

beside_others = False
"""Whether this process is one of several local replicas. The supervisor sets this in each of them."""

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


def replica_name(settings: CoreSettings) -> str:
    """Return the name of this replica: `REPLICA_NAME`, or the name of the host if `REPLICA_NAME` is empty.

    If a supervisor started this process, the name ends with a number, such as `host-2`.

    Example:

        from anyreplica import Settings, replica_name

        print(replica_name(Settings.load()))
    """
    name = settings.replica_name or socket.gethostname()
    return name if multiprocessing.parent_process() is None else f"{name}-{process_number()}"


def process_number() -> str:
    """Return the number that the supervisor of this process has given it. A new process never gets an old number."""
    return multiprocessing.current_process().name.rpartition("-")[2]  # ForkServerProcess-1, …


def uvicorn_options(settings: CoreSettings, app: str | ASGIApp) -> dict[str, Any]:
    """Return the keyword arguments of `uvicorn.Config`. All commands that start a replica use them.

    Raises:
        StartupError: the event loop of the settings is not installed.
    """
    if settings.event_loop == "uvloop" and importlib.util.find_spec("uvloop") is None:
        raise StartupError("EVENT_LOOP=uvloop: uvloop is not installed; install it, or set EVENT_LOOP=asyncio")
    return {
        "app": app,
        "factory": isinstance(app, str),
        "interface": "asgi3",
        **({"uds": settings.mcp_uds} if settings.mcp_uds else {"host": hosts(settings), "port": settings.mcp_port}),
        "loop": "anyreplica.process.event_loop:new_loop" if settings.event_loop == "asyncio" else settings.event_loop,
        "http": "anyreplica.http.uvicorn.protocol:HttpProtocol",
        "ws": "none",
        "lifespan": "on",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,
        "timeout_worker_healthcheck": 30,  # on a busy machine the start of a replica can take long
        "timeout_keep_alive": settings.keep_alive_seconds,
        "timeout_graceful_shutdown": settings.shutdown_grace_seconds,
    }


@asynccontextmanager
async def process_lifespan(settings: CoreSettings, lifecycle: Lifecycle) -> AsyncIterator[None]:
    """Inside the block: watch the event loop, drain when a signal arrives, and end if the supervisor ends."""
    loop = asyncio.get_running_loop()
    stop_exits(loop)
    hide_late_lookups(loop)
    supervisor = multiprocessing.parent_process()
    if supervisor is not None:
        # If its supervisor is killed or crashes, a replica must end. Otherwise it would use the port forever.
        loop.add_reader(supervisor.sentinel, end_now, 1)
    settle()
    try:
        with lifecycle.running():
            # `forked` has blocked SIGINT until now.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            async with watch(settings.loop_stall_seconds), trimming():
                yield
    finally:
        flush_logs()  # after this block the ASGI server may end the process with a signal


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

    If an `async` function blocks, nothing inside the process can interrupt it. The supervisor or orchestrator replaces
    an ended process much sooner than a process that only fails its health checks.

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
                _end_stalled(stall_seconds)

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


def _end_stalled(stall_seconds: float) -> None:
    """End the process, and log the stacks of all threads."""
    faulthandler.cancel_dump_traceback_later()  # this timer must not end the process during the next lines
    text = "The event loop was blocked for %g s (LOOP_STALL_SECONDS); ending this replica. Threads:"
    logger.critical(text, stall_seconds)
    faulthandler.dump_traceback(sys.__stderr__ or 2)
    os._exit(EXIT_STALLED)


folder = ""
"""The folder of the sockets. Empty: this process is a whole replica."""

_SECONDS = 3.0
"""Time limit for the page of another process. A process that is blocked for longer is missing."""

_FRESH_SECONDS = 1.0
"""Age up to which a page is given out again. Whoever may read the metrics can ask as often as they like."""


@asynccontextmanager
async def answering_siblings(page: Callable[[], Awaitable[bytes]]) -> AsyncIterator[None]:
    """Inside the block, answer the other processes with a page."""
    if not folder:
        yield
        return
    loop = asyncio.get_running_loop()
    fresh, made_at, making = b"", 0.0, asyncio.Lock()

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal fresh, made_at
        with suppress(OSError):  # the process that asked has ended, or does not wait any longer
            async with making:
                if not fresh or loop.time() - made_at > _FRESH_SECONDS:
                    fresh, made_at = await page(), loop.time()
            writer.write(fresh)
            await writer.drain()
        writer.close()

    # A socket refuses connections until it listens. So it gets its name, by which others find it, only after that.
    place = Path(folder, f".{process_number()}")
    async with await asyncio.start_unix_server(answer, place) as server:
        release(server.sockets)
        _rename(place, process_number())
        yield


async def ask_siblings() -> dict[str, bytes]:
    """Return the pages of the other processes by their numbers. A process that does not answer is missing."""
    others = _others()
    pages = await asyncio.gather(*(_ask(each) for each in others))
    return {other.name: page for other, page in zip(others, pages, strict=True) if page}


async def _ask(path: Path) -> bytes:
    """Return the page of a process, or nothing if it does not answer. Delete the socket of a process that has ended."""
    try:
        async with asyncio.timeout(_SECONDS):
            reader, writer = await asyncio.open_unix_connection(path)
            try:
                return await reader.read()
            finally:
                writer.close()
    except ConnectionRefusedError:
        _delete(path)
    except OSError:  # TimeoutError is one
        pass
    return b""


def _others() -> list[Path]:
    found = Path(folder).iterdir() if folder else ()
    return [each for each in found if each.name.isdecimal() and each.name != process_number()]


def _rename(path: Path, name: str) -> None:
    path.rename(path.with_name(name))


def _delete(path: Path) -> None:
    path.unlink(missing_ok=True)
