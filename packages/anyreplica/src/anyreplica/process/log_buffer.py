"""A buffer that writes several log lines to stderr together. A write per line takes as long as a request."""

import asyncio
import atexit
import logging
import sys
from collections import deque
from contextlib import suppress
from typing import Any

FLUSH_SECONDS = 0.05
"""Maximum time that a line waits while the event loop turns, in seconds."""

_BATCH = 200
"""Maximum number of waiting lines. Formatting and writing them delays every request by a quarter of a millisecond."""


class LogBuffer(logging.Handler):
    """A logging handler that writes lines to `sys.stderr` every `FLUSH_SECONDS`, at exit, and on `flush`.

    Any thread may use it. In a thread without a running event loop, it writes lines at once. It also writes records of
    level WARNING and above at once.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[str | tuple[Any, ...]] = deque()  # its append and popleft are atomic
        self._due = False
        atexit.register(self.flush)

    def add(self, line: str | tuple[Any, ...]) -> None:
        """Add a line, to be written soon: a text, or a tuple of a function and its arguments.

        In the second case, `flush` calls the function to get the text.
        Formatting many lines one after the other takes half the time of formatting each line during its request.
        """
        self._lines.append(line)
        if self._due:
            if len(self._lines) >= _BATCH:
                self.flush()
                self._due = True  # the scheduled flush still comes
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.flush()
            return
        self._due = True
        loop.call_later(FLUSH_SECONDS, self.flush)

    def flush(self) -> None:
        """Write the added lines. If the stream is closed or full, the lines are lost and the server goes on."""
        self._due = False  # set before the lines are taken, so that a later line schedules the next flush
        lines: list[str | tuple[Any, ...]] = []
        with suppress(IndexError):  # no more lines, or another thread took the last one
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
        except Exception:  # noqa: BLE001  # as logging does with a record that cannot be formatted
            self.handleError(record)
