"""Logging: one handler on the root logger that writes text for people or one JSON object per line.

The handler writes several lines to stderr together. A write per line takes as long as a request.
"""

import asyncio
import atexit
import datetime
import logging
import sys
import traceback
import warnings
from collections import deque
from contextlib import suppress
from contextvars import ContextVar
from types import TracebackType
from typing import Any

import orjson
from mcp.shared.exceptions import MCPDeprecationWarning

from anyreplica.process import frames
from anyreplica.settings import CoreSettings

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""The id of the current request. Empty outside of a request."""

trace_id: ContextVar[str] = ContextVar("trace_id", default="")
"""The id of the current trace. Empty without tracing."""

# These loggers write a line about each request, like the access log, or about each step of uvicorn.
_CHATTY = (
    "mcp.server.streamable_http",
    "mcp.server.streamable_http_manager",
    "uvicorn.error",
    "asyncio",
    "httpx",
    "httpx2",
)

FLUSH_SECONDS = 0.05
"""Maximum time that a line waits while the event loop turns, in seconds."""

_BATCH = 200
"""Maximum number of waiting lines. Formatting and writing them delays every request by a quarter of a millisecond."""

_LONGEST_LINE = 8192
"""Maximum size of a log line, in bytes. A character has at most 4 bytes."""

_LONGEST_RECORD = 64 * 1024
"""Maximum number of characters of a record. The traceback of a record may have many lines."""

_FIRST_LINE = "Traceback (most recent call last):\n"

_VISIBLE = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_VISIBLE |= {ord("\t"): "\t", ord("\n"): "\n    ", 0x2028: "\\u2028", 0x2029: "\\u2029"}


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

        In the second case, `flush` calls the function to get the encoded line.
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
            parts = [encoded(line) if isinstance(line, str) else line[0](*line[1:]) for line in lines]
            with suppress(OSError, ValueError):
                _write(b"\n".join(parts) + b"\n")

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.add(self.format(record))
            if record.levelno >= logging.WARNING:
                self.flush()
        except Exception:  # noqa: BLE001  # as logging does with a record that cannot be formatted
            self.handleError(record)


def encoded(line: str) -> bytes:
    """Return a line as stderr writes it. A character that its encoding does not have is escaped.

    For example, a lone surrogate is escaped, or ✓ in a C locale. Otherwise the whole line would be lost.
    """
    return line.encode(getattr(sys.stderr, "encoding", None) or "utf-8", "backslashreplace")


def _write(lines: bytes) -> None:
    """Write encoded lines to stderr.

    Raises:
        OSError: stderr is full or broken.
        ValueError: stderr is closed.
    """
    stream = sys.stderr
    binary = getattr(stream, "buffer", None)
    if binary is None:  # code of the author has replaced stderr
        stream.write(lines.decode())
    else:
        stream.flush()  # another writer may have begun a line
        binary.write(lines)
    stream.flush()


class _ShortTracebacks(logging.Formatter):
    """A formatter whose tracebacks begin with the author's code. With LOG_LEVEL=DEBUG, they are complete."""

    def formatException(  # noqa: N802  # a name of the standard library
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None],
    ) -> str:
        """Return the traceback of an exception."""
        if ei[1] is None or logging.getLogger().isEnabledFor(logging.DEBUG):
            return super().formatException(ei)
        shown = traceback.TracebackException.from_exception(ei[1])
        removed = frames.shorten(shown)
        text = "".join(shown.format()).rstrip("\n")
        note = f"  … frames of anyreplica and its libraries: {removed} (LOG_LEVEL=DEBUG shows them)\n"
        return text.replace(_FIRST_LINE, _FIRST_LINE + note, 1) if removed else text


class TextFormatter(_ShortTracebacks):
    """A formatter that writes `time - replica - logger - LEVEL - [request id trace=id] message`, then the traceback.

    All lines of a record except the first are indented. Control characters, except tabs, are escaped. So the text of a
    client cannot look like a separate log line.
    """

    def __init__(self, replica: str) -> None:
        name = replica.replace("%", "%%")
        super().__init__(f"%(asctime)s - {name} - %(name)s - %(levelname)s - %(request)s%(message)s")

    def format(self, record: logging.LogRecord) -> str:
        current = marked(request_id.get(), trace_id.get())
        record.request = f"[{current}] " if current else ""
        text = _shortened(super().format(record), _LONGEST_RECORD).translate(_VISIBLE)
        if len(text) <= _LONGEST_LINE // 4:
            return text
        return "\n".join(_shortened(line, _LONGEST_LINE // 4) for line in text.split("\n"))


def marked(request: str, trace: str) -> str:
    """Return the ids of a request and its trace in the format of a text line. Each id may be empty."""
    return f"{request} trace={trace}".lstrip() if trace else request


class JsonFormatter(_ShortTracebacks):
    """A formatter that writes one JSON object per line.

    The key `exception` has the traceback, if there is one. The items of `extra={"fields": …}` become further keys.
    """

    def __init__(self, replica: str) -> None:
        super().__init__()
        self.replica = replica

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as a line of JSON. Values that JSON does not support are written as `str(value)`."""
        time = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        line: dict[str, Any] = {
            "time": time.isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "replica": self.replica,
        }
        if current := request_id.get():
            line["request_id"] = current
        if trace := trace_id.get():
            line["trace_id"] = trace
        line.update(getattr(record, "fields", {}))
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        written = _written(line)
        if len(written) > _LONGEST_LINE:
            line = {
                key: _shortened(value, _LONGEST_LINE) if isinstance(value, str) else value
                for key, value in line.items()
            }
        while len(written) > _LONGEST_LINE:
            longest = max(line, key=lambda key: len(str(line[key])))
            text = str(line[longest])
            line[longest] = _shortened(text, min(len(text) * 3 // 4, len(text) * _LONGEST_LINE // len(written)))
            written = _written(line)
        return written.decode()


def _written(line: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(line, default=str)
    except orjson.JSONEncodeError:  # a lone surrogate, which UTF-8 cannot encode either
        return orjson.dumps({key: ascii(value) for key, value in line.items()})


def _shortened(text: str, most: int) -> str:
    """Return a text of at most `most` characters: the beginning and the end of a longer text."""
    if len(text) <= most:
        return text
    gap = f" … {len(text) - most} characters left out … "
    half = max(0, most - len(gap)) // 2
    return f"{text[:half]}{gap}{text[len(text) - half :]}"


def configure(settings: CoreSettings, replica: str) -> LogBuffer:
    """Send the lines of all loggers to stderr through one handler. Return this handler."""
    logging.captureWarnings(True)
    # For clients of the handshake protocol, FastMCP sends log messages with a function that the SDK has deprecated.
    warnings.filterwarnings("ignore", category=MCPDeprecationWarning, module="fastmcp")
    buffer = LogBuffer()
    buffer.setFormatter(JsonFormatter(replica) if settings.log_format == "json" else TextFormatter(replica))
    root, fastmcp = logging.getLogger(), logging.getLogger("fastmcp")
    fastmcp.handlers, fastmcp.propagate = [], True  # the handler of FastMCP would print each line a second time
    root.handlers = [buffer]
    root.setLevel(settings.log_level)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(root.level, logging.WARNING))
    # At DEBUG this logger writes the arguments of each call, which are private to the caller.
    logging.getLogger("fastmcp.server.mixins.mcp_operations").setLevel(max(root.level, logging.INFO))
    return buffer
