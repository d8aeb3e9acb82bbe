"""Ctrl-C and SIGTERM, which end a study only at points where no process is left behind.

An exception directly after the start of a process could leave this process behind, because the study has not stored it
yet. If a signal handler raised an exception inside a callback, uvloop would treat it as a fault of the connection.
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


class _State:
    held = False
    pending = 0
    cancel: Callable[[], object] | None = None


@contextmanager
def installed() -> Iterator[None]:
    """Let SIGINT and SIGTERM raise `SystemExit` with 128 plus the signal's number inside the block."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, _on_signal)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def held() -> Iterator[None]:
    """Delay SIGINT and SIGTERM until the end of the block. These blocks must not be nested."""
    _State.held = True
    try:
        yield
    finally:
        _State.held = False
        if _State.pending:
            sys.exit(128 + _State.pending)


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine on uvloop. SIGINT or SIGTERM cancels the coroutine; then `SystemExit` is raised."""

    async def cancellable() -> _T:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(work)
        _State.cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        if _State.pending:
            task.cancel()
        return await task

    with held():
        try:
            return uvloop.run(cancellable())
        finally:
            _State.cancel = None


def _on_signal(number: int, _: FrameType | None) -> None:
    if not _State.held:
        sys.exit(128 + number)
    _State.pending = number
    if _State.cancel:
        _State.cancel()
