"""Ctrl-C and SIGTERM end the run where nothing is lost by it.

Not between the start of a process and the note that it runs, nor in a callback of the event loop, where uvloop would
take the exception for a fault of the connection.
"""

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

import uvloop

_T = TypeVar("_T")


class _Signals:
    """The state of this process's signal handlers."""

    held = False
    pending = 0
    cancel: Callable[[], object] | None = None


def install() -> None:
    """Let SIGINT and SIGTERM raise `SystemExit` with 128 and the signal's number, as a shell would have it."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _on_signal)


@contextmanager
def installed() -> Iterator[None]:
    """The same until the end of the block."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    install()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def held() -> Iterator[None]:
    """Put off such a signal until the end of the block; not to be nested."""
    _Signals.held = True
    try:
        yield
    finally:
        _Signals.held = False
        if _Signals.pending:
            sys.exit(128 + _Signals.pending)


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine on uvloop; such a signal cancels it, and is raised when it has ended."""

    async def cancellable() -> _T:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(work)
        _Signals.cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        if _Signals.pending:
            task.cancel()
        return await task

    with held():
        try:
            return uvloop.run(cancellable())
        finally:
            _Signals.cancel = None


def _on_signal(number: int, _: FrameType | None) -> None:
    if not _Signals.held:
        sys.exit(128 + number)
    _Signals.pending = number
    if _Signals.cancel:
        _Signals.cancel()
