"""What is known of one call, as it is noted on the event loop."""

import json
from collections.abc import Mapping, MutableMapping
from typing import Any, NamedTuple

import orjson

ARGUMENTS = "mcp_swarm.audit.arguments"
"""Key of the scope under which the arguments stand that are noted; there, and empty, if a request is noted at all."""

UNWRITABLE = b'"(no JSON)"'
"""What stands for arguments that no writer can write; none that came as JSON are such."""

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


class Noted(NamedTuple):
    """One call, when it has ended; it began at `time`, in seconds since the epoch."""

    time: float
    request_id: str
    caller: str
    """Such as `key:ci`; empty if nobody is asked who they are."""
    method: str
    """Of JSON-RPC, or of HTTP with its path, such as `POST /jobs`."""
    name: str
    """Of the tool, prompt or job, or a resource's URI; empty for what has none."""
    arguments: bytes
    """As `canonical` wrote them when the call began, since a tool may change them; empty for none."""
    status: int
    """Of the HTTP reply; 499 for a caller that went away."""
    failed: bool
    """Whether the reply tells of an error, whatever its status; with 503: whether the call was cancelled."""
    seconds: float


def canonical(arguments: Any) -> bytes:
    """Arguments as JSON, the same bytes for the same values on every replica; nothing for None.

    Keys are sorted and there are no spaces. Integers beyond 64 bits and lone surrogates, which orjson refuses, make
    all of it ASCII. It never raises.
    """
    if arguments is None:
        return b""
    try:
        return orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        pass
    try:
        return _ENCODER.encode(arguments).encode()
    except (TypeError, ValueError, RecursionError):
        return UNWRITABLE


def note_arguments(scope: MutableMapping[str, Any], params: Mapping[str, Any] | None) -> None:
    """Keep a call's arguments as they are before a tool sees them, if it is noted."""
    if params is not None and ARGUMENTS in scope:
        scope[ARGUMENTS] = canonical(params.get("arguments"))
