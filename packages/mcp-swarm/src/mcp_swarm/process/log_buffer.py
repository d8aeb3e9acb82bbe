"""Log lines on their way to stderr, written together: a write per line costs as much as answering the request."""

import asyncio
import atexit
import logging
import sys
from collections import deque
from contextlib import suppress
from typing import Any

FLUSH_SECONDS = 0.05
"""How long a line waits at most while the event loop turns."""

_BATCH = 200
"""How many lines wait at most: formatting and writing them holds up every request for a quarter of a millisecond."""


class LogBuffer(logging.Handler):
    """Lines that are written to `sys.stderr` every `FLUSH_SECONDS`, at exit, and whenever somebody asks for it.

    Safe to use from any thread; without a running event loop in it, lines are written at once. As a handler it writes
    records from WARNING on at once.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[str | tuple[Any, ...]] = deque()  # whose append and popleft are atomic
        self._due = False
        atexit.register(self.flush)

    def add(self, line: str | tuple[Any, ...]) -> None:
        """Write a line soon: its text, or a function that makes it and that function's arguments.

        To format many lines one after the other takes half the time that it takes between requests.
        """
        self._lines.append(line)
        if self._due:
            if len(self._lines) >= _BATCH:
                self.flush()
                self._due = True  # as it is: the flush in the loop comes, too
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.flush()
            return
        self._due = True
        loop.call_later(FLUSH_SECONDS, self.flush)

    def flush(self) -> None:
        """Write what has been added. A stream that takes nothing (closed, full) loses the lines, not the server."""
        self._due = False  # ahead of the taking: a line that comes after it is for the next time
        lines: list[str | tuple[Any, ...]] = []
        with suppress(IndexError):  # there are no more, or another thread took the last one
            while True:
                lines.append(self._lines.popleft())
        if lines:
            texts = [line if isinstance(line, str) else line[0](*line[1:]) for line in lines]
            with suppress(OSError, ValueError):
                sys.stderr.write("\n".join(texts) + "\n")
                sys.stderr.flush()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.add(self.format(record))
            if record.levelno >= logging.WARNING:
                self.flush()
        except Exception:  # noqa: BLE001  # logging's own way with a record that can't be formatted
            self.handleError(record)
