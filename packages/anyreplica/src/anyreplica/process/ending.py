"""The end of a process that must not wait: for a thread, for a task, or for a start."""

import _thread
import logging
import multiprocessing
import os
import signal
import time
from types import FrameType

_LAST_SECONDS = 1.0


class Terminated(KeyboardInterrupt):
    """SIGTERM has arrived before a server runs."""


def end_regardless() -> None:
    """End the process after 1 s, even if a thread or task of a tool still runs. Python would wait for them.

    A signal handler may call this. `threading.Timer` could then wait for ever for a lock of the interrupted code.
    """
    _thread.start_new_thread(_end_soon, ())


def end_now(code: int) -> None:
    """Write the waiting log lines and end the process at once, together with the processes of `multiprocessing`.

    Python would wait for these processes. Without this process, they would wait for work for ever.
    """
    flush_logs()
    for child in multiprocessing.active_children():
        child.kill()  # a forked process has our handler of SIGTERM, which does not end it
    os._exit(code)


def flush_logs() -> None:
    """Write the waiting log lines."""
    for handler in logging.getLogger().handlers:
        handler.flush()


def end_at_sigterm() -> None:
    """From now on, SIGTERM ends the process. Call this before the server is loaded, which may take long.

    The kernel ignores SIGTERM for the first process of a container, unless the process has a handler.
    """
    signal.signal(signal.SIGTERM, _terminate)


def _terminate(_number: int, _frame: FrameType | None) -> None:
    end_regardless()  # the interrupted code may catch the exception
    raise Terminated


def _end_soon() -> None:
    time.sleep(_LAST_SECONDS)
    end_now(0)
