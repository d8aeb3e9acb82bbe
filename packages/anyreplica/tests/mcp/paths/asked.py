"""Requests in the form that clients of each protocol version send, and warnings that the tests ignore."""

import json
from typing import Any

import pytest
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from tests.calls import BOTH, ENVELOPE, VERSION, request
from tests.damage.wire import Request, routing

WARNINGS = [
    # pydantic serializes a value that does not have the declared type, and warns once per process.
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings"),
    pytest.mark.filterwarnings("ignore:.*SEP-2577"),  # Log messages are deprecated but still work.
]


HANDSHAKE = HANDSHAKE_PROTOCOL_VERSIONS[-1]


def sent(message: Any, version: str | None = HANDSHAKE, *extra: tuple[str, str], accept: str | None = BOTH) -> Request:
    """Return a request in the form that a client of this version sends."""
    headers = [("host", "localhost"), ("content-type", "application/json"), *extra, *routing(message, version).items()]
    if accept is not None:
        headers.append(("accept", accept))
    return Request(json.dumps(message).encode(), tuple((name.encode(), value.encode()) for name, value in headers))


def called(name: str, given: Any = None, version: str | None = HANDSHAKE, **meta: Any) -> Request:
    """Return the call of a tool."""
    params: dict[str, Any] = {"name": name, "arguments": given or {}}
    if version == VERSION:
        params["_meta"] = {**ENVELOPE, **meta}
    elif meta:
        params["_meta"] = meta
    region = [("mcp-param-region", given["region"])] if name == "by_region" and given and version != VERSION else []
    return sent(request("tools/call", params), version, *region)
