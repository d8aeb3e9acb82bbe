"""The facts about one call, which the event loop records for the audit log."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson
from starlette.types import Scope

from anyreplica.http.request_record import RECORD, RequestRecord

ARGUMENTS = "audit.arguments"
"""The note of a request with its arguments. A request without this note gets no entry in the audit log."""

UNWRITABLE = b'"(no JSON)"'
"""The text in place of arguments that cannot be written as JSON. Arguments that arrived as JSON never get it."""

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
_SORT_KEYS = orjson.OPT_SORT_KEYS


class Noted(NamedTuple):
    """A call that has ended. `time` is its start in seconds since the epoch.

    A replica makes a plain tuple with the same values instead, because that is faster. So read the values by position,
    never by name.
    """

    time: float
    request_id: str
    caller: str
    """Name of the caller, such as `key:ci`. Empty: there is no authenticated caller."""
    method: str
    """Method of JSON-RPC, or method and path of HTTP, such as `POST /jobs`."""
    name: str
    """Name of the tool, prompt or job, or URI of the resource. Empty: the request has no name."""
    arguments: bytes
    """Arguments as JSON (see `canonical`), as they were before the call: a tool may change them. Empty: none."""
    status: int
    """HTTP status of the reply. 499: the client closed the connection before the reply."""
    failed: bool
    """Whether the call failed after its start (see `RequestRecord.failed`).

    With status 200: the reply contains an error. With status 503, true means that the replica cancelled the call, and
    false means that the replica refused the call.
    """
    seconds: float
    """Duration of the call in seconds."""


def canonical(arguments: Any) -> bytes:
    """Return arguments as JSON: every replica returns the same bytes for the same values.

    The result is empty for None.

    The keys are sorted and there are no spaces. orjson refuses integers beyond 64 bits and lone surrogates; arguments
    with these values become pure ASCII. This function never raises an exception.
    """
    if arguments is None:
        return b""
    try:
        return orjson.dumps(arguments, None, _SORT_KEYS)
    except orjson.JSONEncodeError:
        pass
    try:
        return _ENCODER.encode(arguments).encode()
    except (TypeError, ValueError, RecursionError):
        return UNWRITABLE


def note_arguments(scope: Scope, params: Mapping[str, Any] | None) -> None:
    """Record a call's arguments before the tool gets them, if the call gets an entry in the audit log."""
    record: RequestRecord = scope[RECORD]
    notes = record.notes
    if params is not None and notes is not None and ARGUMENTS in notes:
        notes[ARGUMENTS] = canonical(params.get("arguments"))
