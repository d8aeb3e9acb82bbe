"""Requests in the form that clients of each protocol version send, and warnings that the tests ignore."""

import json
from typing import Any

import pytest
from mcp.shared.inbound import encode_header_value
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from tests.calls import ENVELOPE, VERSION, request
from tests.mcp.paths.wire import Sent

WARNINGS = [
    # pydantic serializes a value that does not have the declared type, and warns once per process.
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings"),
    pytest.mark.filterwarnings("ignore:.*SEP-2577"),  # Log messages are deprecated but still work.
]


HANDSHAKE = HANDSHAKE_PROTOCOL_VERSIONS[-1]
VERSIONS = (None, *HANDSHAKE_PROTOCOL_VERSIONS, VERSION)
"""Values of the header `MCP-Protocol-Version`."""


def sent(
    message: Any,
    version: str | None = HANDSHAKE,
    *extra: tuple[str, str],
    accept: str | None = "application/json, text/event-stream",
) -> Sent:
    """Return a request in the form that a client of this version sends."""
    headers = [("host", "localhost"), ("content-type", "application/json"), *extra]
    if accept is not None:
        headers.append(("accept", accept))
    if version is not None:
        headers.append(("mcp-protocol-version", version))
    params = message.get("params") or {}
    if version == VERSION:
        headers.append(("mcp-method", message["method"]))
        if name := params.get("name") or params.get("uri"):
            headers.append(("mcp-name", encode_header_value(name)))
    body = json.dumps(message).encode()
    return Sent(body, tuple((name.encode(), value.encode()) for name, value in headers))


def called(name: str, given: Any = None, version: str | None = HANDSHAKE, **meta: Any) -> Sent:
    """Return the call of a tool."""
    params: dict[str, Any] = {"name": name, "arguments": given or {}}
    if version == VERSION:
        params["_meta"] = {**ENVELOPE, **meta}
    elif meta:
        params["_meta"] = meta
    region = [("mcp-param-region", given["region"])] if name == "by_region" and given else []
    return sent(request("tools/call", params), version, *region)
