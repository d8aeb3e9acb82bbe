"""Logging: one handler on the root logger, text for people or one JSON object a line."""

import datetime
import logging
import sys
import warnings
from contextvars import ContextVar
from typing import Any

import orjson
from mcp.shared.exceptions import MCPDeprecationWarning

from mcp_swarm.process.log_buffer import LogBuffer
from mcp_swarm.settings import Settings

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""The id of the request that is being served; empty outside of one."""

trace_id: ContextVar[str] = ContextVar("trace_id", default="")
"""The id of the current trace; empty if nothing is traced."""

# These say something about each request, which the access log does too, or tell of uvicorn's every step.
_CHATTY = (
    "mcp.server.streamable_http",
    "mcp.server.streamable_http_manager",
    "uvicorn.error",
    "asyncio",
    "httpx",
    "httpx2",
)

_LONGEST_LINE = 8192
"""Most bytes of a log line. A character has at most 4."""

_LONGEST_RECORD = 64 * 1024
"""Most characters of a record, whose traceback may have many lines."""

_VISIBLE = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_VISIBLE |= {ord("\t"): "\t", ord("\n"): "\n    ", 0x2028: "\\u2028", 0x2029: "\\u2029"}


class TextFormatter(logging.Formatter):
    """`time - logger - LEVEL - [request id trace=id] message`, with the traceback beneath.

    Only a record's first line begins at the margin, and no control character reaches a terminal, so that text
    from a caller can't pass for a line of its own.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s - %(name)s - %(levelname)s - %(request)s%(message)s")

    def format(self, record: logging.LogRecord) -> str:
        current = marked(request_id.get(), trace_id.get())
        record.request = f"[{current}] " if current else ""
        text = _shortened(super().format(record), _LONGEST_RECORD).translate(_VISIBLE)
        if len(text) <= _LONGEST_LINE // 4:
            return text
        return "\n".join(_shortened(line, _LONGEST_LINE // 4) for line in text.split("\n"))


def marked(request: str, trace: str) -> str:
    """The ids of a request and of its trace, as a line of text shows them. Each may be empty."""
    return f"{request} trace={trace}".lstrip() if trace else request


class JsonFormatter(logging.Formatter):
    """One JSON object a line, the traceback (if any) in `exception`, what `extra={"fields": …}` holds beside it."""

    def __init__(self, replica: str) -> None:
        super().__init__()
        self.replica = replica

    def format(self, record: logging.LogRecord) -> str:
        """One record as a line of JSON; what JSON can't carry is written as its `str()`."""
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
    except orjson.JSONEncodeError:  # a lone surrogate, which UTF-8 can't carry either
        return orjson.dumps({key: ascii(value) for key, value in line.items()})


def _shortened(text: str, most: int) -> str:
    """A text of at most so many characters: the beginning and the end of a longer one."""
    if len(text) <= most:
        return text
    said = f" … {len(text) - most} characters left out … "
    half = max(0, most - len(said)) // 2
    return f"{text[:half]}{said}{text[len(text) - half :]}"


def configure(settings: Settings, replica: str) -> LogBuffer:
    """Send every logger's lines to stderr through one handler; returns what they pass through."""
    # A character that the terminal can't show (a lone surrogate, ✓ in a C locale) must not cost the line.
    if hasattr(sys.stderr, "reconfigure"):
        sys.stderr.reconfigure(errors="backslashreplace")
    logging.captureWarnings(True)
    # FastMCP still sends log messages to handshake-protocol clients by a way that the SDK calls deprecated.
    warnings.filterwarnings("ignore", category=MCPDeprecationWarning, module="fastmcp")
    buffer = LogBuffer()
    buffer.setFormatter(JsonFormatter(replica) if settings.log_format == "json" else TextFormatter())
    root, fastmcp = logging.getLogger(), logging.getLogger("fastmcp")
    fastmcp.handlers, fastmcp.propagate = [], True  # its own handler would print beside this one
    root.handlers = [buffer]
    root.setLevel(settings.log_level)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(root.level, logging.WARNING))
    # At DEBUG it tells of each call's arguments, which are nobody's business but the caller's.
    logging.getLogger("fastmcp.server.mixins.mcp_operations").setLevel(max(root.level, logging.INFO))
    return buffer
