"""What this package knows of a request: one object in the ASGI scope that all middleware share."""

import re
from collections.abc import Mapping
from typing import Any

from starlette.types import Scope

from anyreplica.settings.replica import PathSettings

Headers = Mapping[bytes, bytes]
"""The headers of a request by their names in lower case."""

RECORD = "anyreplica.request"
"""Scope key of the `RequestRecord`. `record_of` creates the object at the first use."""

TOOL_ERROR, RPC_ERROR, FAULT = "tool_error", "rpc_error", "fault"
"""Values of `RequestRecord.failed`: the tool, the request or the server failed."""

NO_ERROR = ""
"""Value of `RequestRecord.failed` for a reply whose status is 400 or more although nothing failed: the client only
tried whether the server has a feature."""

LONGEST = 200
"""Maximum number of characters of a logged path or name. Code that sets `RequestRecord.called` must shorten longer
names."""

DUPLICATED = b":duplicated"
"""Key in the dictionary. Its value is the name of a routing header that the request has more than once."""

CREDENTIALS = frozenset(
    {b"authorization", b"proxy-authorization", b"cookie", b"x-api-key", b"signature", b"signature-input", b"dpop"}
)
"""The headers that may carry a caller's credentials, in lower case."""

_ROUTING = (b"mcp-protocol-version", b"mcp-method", b"mcp-name")

Pair = tuple[str, str] | tuple[()]
"""Two texts, or nothing."""

_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)*")


class HeadFacts:
    """What follows from the bytes of a request head. All requests with the same bytes share it.

    Attributes:
        headers: the headers, see `RequestRecord`. Nobody may change this dictionary.
        accepts_events: whether the client accepts an event stream, if `HeadCheck` has accepted the head.
        accepted_at: the scheme and the address of the server for which it has. None: it has not accepted the head.
        token: the token of the head, if authentication has read it; None: the head has no token.
        is_token_read: whether authentication has read the token.
        routing: what the MCP endpoint has read in the headers; None: it has not read them.
    """

    __slots__ = ("accepted_at", "accepts_events", "headers", "is_token_read", "routing", "token")

    def __init__(self, headers: dict[bytes, bytes]) -> None:
        self.headers = headers
        self.accepts_events = False
        self.accepted_at: tuple[str, Any] | None = None
        self.token: bytes | None = None
        self.is_token_read = False
        self.routing: Any = None

    def accept(self, at: tuple[str, Any], accepts_events: bool) -> None:
        """Note that `HeadCheck` has accepted the head, see the attributes."""
        self.accepts_events, self.accepted_at = accepts_events, at


class RequestRecord:
    """What this package knows of a request. Each part of a request's way adds what it finds out.

    Attributes:
        headers: the headers by their names in lower case. If a header occurs several times, the first one counts. All
            Accept headers are joined with commas.
        caller: the `Caller` of `anyreplica.auth`, if authentication found one.
        unknown: the `UnknownCaller` of `anyreplica.auth`, if only middleware of the server's author knows the caller.
        called: the JSON-RPC method, and the name of the tool or an empty text. Empty: the request is no call.
        path: the protocol family, and the path that answers the request. Empty: no path yet.
        failed: what failed although the status of the reply is 200: `TOOL_ERROR`, `RPC_ERROR` or `FAULT`. Or
            `NO_ERROR`. None: nothing is known to have failed.
        trace: the span of a traced request.
        notes: what features note, by a name of their own.
        facts: what follows from the head, if earlier requests had the same head. A change of `headers` removes it.
    """

    # `new_record` sets these attributes. They have no default here, because Python reads an attribute slowly if the
    # object and its class both have it.
    headers: dict[bytes, bytes]
    facts: HeadFacts | None
    caller: Any
    called: Pair
    path: Pair
    notes: dict[str, Any] | None
    # Most requests never set these attributes.
    unknown: Any = None
    failed: str | None = None
    trace: Any = None


def new_record(headers: dict[bytes, bytes]) -> RequestRecord:
    """Return the record of a new request."""
    record = RequestRecord()
    record.headers = headers
    record.facts = record.caller = record.notes = None
    record.called = record.path = ()
    return record


def record_of(scope: Scope) -> RequestRecord:
    """Return the record of a request."""
    record: RequestRecord | None = scope.get(RECORD)
    if record is None:
        pairs: list[tuple[bytes, bytes]] = scope.get("headers", [])
        values = dict(pairs)
        if len(values) != len(pairs):
            _fold(values, pairs)
        record = scope[RECORD] = new_record(values)
    return record


def note(record: RequestRecord, name: str, value: Any) -> None:
    """Note something about a request."""
    if record.notes is None:
        record.notes = {}
    record.notes[name] = value


def headers_of(scope: Scope) -> dict[bytes, bytes]:
    """Return the headers of a request, see `RequestRecord`."""
    return record_of(scope).headers


def path_of(scope: Scope) -> str:
    """Return the path of a request below the prefix at which the app is mounted.

    `scope["path"]` contains the prefix, which is `scope["root_path"]` (ASGI specification, HTTP connection scope).
    Some servers and proxies leave the prefix out of the path. Then the path stays as it is.
    """
    path: str = scope["path"]
    prefix: str = scope.get("root_path", "")
    if prefix and path.startswith(prefix) and path[len(prefix) : len(prefix) + 1] in ("", "/"):
        return path[len(prefix) :]
    return path


def drop_session_id(scope: Scope) -> None:
    """Remove the session id from a request, so that FastMCP and the SDK do not look for session state."""
    scope["headers"] = [pair for pair in scope["headers"] if pair[0] != b"mcp-session-id"]
    record = record_of(scope)
    record.headers = {name: value for name, value in record.headers.items() if name != b"mcp-session-id"}
    record.facts = None


def drop_credentials(scope: Scope) -> None:
    """Remove the credentials of an authenticated caller from a request, so that no tool and no log can reveal them."""
    scope["headers"] = [pair for pair in scope["headers"] if pair[0] not in CREDENTIALS]
    record = record_of(scope)
    record.headers = {name: value for name, value in record.headers.items() if name not in CREDENTIALS}
    record.facts = None


def _fold(values: dict[bytes, bytes], pairs: list[tuple[bytes, bytes]]) -> None:
    seen: set[bytes] = set()
    for name, value in pairs:
        if name not in seen:
            seen.add(name)
            values[name] = value
        elif name == b"accept":
            values[name] += b"," + value
        elif name in _ROUTING:
            values[DUPLICATED] = name


def mcp_paths(settings: PathSettings) -> frozenset[str]:
    """Return the paths of the MCP endpoint: many clients add a slash."""
    return frozenset({settings.mcp_path, f"{settings.mcp_path}/"})


def quiet_paths(settings: PathSettings) -> frozenset[str]:
    """Return the paths of probes and of Prometheus, whose requests are neither logged nor counted."""
    return frozenset(
        {settings.liveness_path, "/health", "/health/deep", settings.readiness_path, settings.metrics_path}
    )


def prefix(scope: Scope) -> str:
    """Return the prefix at which the app is mounted, if it is one that a link may have; otherwise an empty text."""
    found = scope.get("root_path", "")
    return found if _PREFIX.fullmatch(found) else ""
