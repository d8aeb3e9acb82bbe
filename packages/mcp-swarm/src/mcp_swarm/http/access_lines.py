"""What the access log writes of a request, as text for people or as JSON.

Written past the logging module, whose record costs more than answering a call does, in the form that its formatters
(`mcp_swarm.process.logs`) give every other line.
"""

import datetime
import time
from collections.abc import Callable
from functools import lru_cache, partial

import orjson
from starlette.types import Scope

from mcp_swarm.process.log_buffer import LogBuffer
from mcp_swarm.process.logs import marked, trace_id
from mcp_swarm.settings import Settings

CALL = "server.call"
"""Key of the scope under which the exchange notes what was asked: (JSON-RPC method, tool's name or "")."""

FAILED = "server.failed"
"""Key of the scope under which the exchange notes that the reply, though HTTP 200, tells of an error, and of whose:
`TOOL_ERROR`, `RPC_ERROR` or `FAULT`."""

TOOL_ERROR, RPC_ERROR, FAULT = "tool_error", "rpc_error", "fault"
"""What went wrong: a tool says so, the request wasn't good, or the server wasn't."""

WAY = "server.way"
"""Key of the scope under which the exchange notes the request's era and lane."""

LONGEST = 200
"""Characters of a path or name that are logged; whoever notes a call cuts what is longer."""

LOGGER = "mcp_swarm.access"

_Called = tuple[str, ...]
Write = Callable[[str, Scope, int, float], None]
"""Takes the request's id, its scope, the status of its reply, and the seconds that it took."""


def access_lines(settings: Settings, replica: str, buffer: LogBuffer) -> Write:
    """How to write a request's line, by the settings."""
    if settings.log_level not in ("DEBUG", "INFO"):
        return lambda *_: None
    form = partial(_json, replica) if settings.log_format == "json" else _text
    add = buffer.add

    def write(identity: str, scope: Scope, status: int, seconds: float) -> None:
        failed = status >= 400 or FAILED in scope
        path = (scope.get("raw_path") or scope["path"].encode())[:LONGEST]
        called, trace = scope.get(CALL, ()), trace_id.get()
        add((form, time.time(), identity, trace, scope["method"], path, status, failed, seconds, called))

    return write


def _text(
    now: float,
    identity: str,
    trace: str,
    method: str,
    path: bytes,
    status: int,
    failed: bool,
    seconds: float,
    called: _Called,
) -> str:
    second = int(now)
    return "%s,%03d - mcp_swarm.access - INFO - [%s] %s" % (  # noqa: UP031  # half the time of an f-string's
        _clock(second),
        (now - second) * 1000,
        marked(identity, trace),
        _message(status, failed, _asked(method, path, called), seconds),
    )


def _json(
    replica: str,
    now: float,
    identity: str,
    trace: str,
    method: str,
    path: bytes,
    status: int,
    failed: bool,
    seconds: float,
    called: _Called,
) -> str:
    fields = {
        "time": datetime.datetime.fromtimestamp(now, datetime.UTC).isoformat(timespec="milliseconds"),
        "level": "INFO",
        "logger": LOGGER,
        "message": _message(status, failed, _asked(method, path, called), seconds),
        "replica": replica,
        "request_id": identity,
        "method": method,
        "path": _printable(path.decode("latin-1")),
        "status": status,
        "failed": failed,
        "ms": round(seconds * 1000, 3),
    }
    if trace:
        fields["trace_id"] = trace
    for key, word in zip(("rpc_method", "rpc_name"), called, strict=False):
        if word:
            fields[key] = _printable(word)
    return orjson.dumps(fields).decode()


def _message(status: int, failed: bool, asked: str, seconds: float) -> str:
    return "%s %d %s (%.1fms)" % ("✗" if failed else "✓", status, asked, seconds * 1000)  # noqa: UP031


@lru_cache(maxsize=2)
def _clock(second: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))


@lru_cache(maxsize=256)
def _asked(method: str, path: bytes, called: _Called) -> str:
    """What was asked for, fit for a log."""
    return " ".join([method, _printable(path.decode("latin-1")), *[_printable(word) for word in called if word]])


def _printable(text: str) -> str:
    """A caller's text as it may stand in a line of log: no line breaks or control characters, not endless."""
    return text if text.isprintable() else ascii(text)[1:-1][:LONGEST]
