"""Requests as clients of each version send them, and what a test of them may ignore."""

import json
from typing import Any

import pytest
from mcp.shared.inbound import encode_header_value
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from tests.calls import ENVELOPE, VERSION, request
from tests.mcp.paths.wire import Sent

WARNINGS = [
    # A value of another type than a tool declares is written all the same; pydantic says so once a process.
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings"),
    pytest.mark.filterwarnings("ignore:.*SEP-2577"),  # log messages go out of fashion, and still work
]


HANDSHAKE = HANDSHAKE_PROTOCOL_VERSIONS[-1]
VERSIONS = (None, *HANDSHAKE_PROTOCOL_VERSIONS, VERSION)
"""What `MCP-Protocol-Version` may say."""


def sent(
    message: Any,
    version: str | None = HANDSHAKE,
    *extra: tuple[str, str],
    accept: str | None = "application/json, text/event-stream",
) -> Sent:
    """A request as a client of that version sends it."""
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
    """A tool's call."""
    params: dict[str, Any] = {"name": name, "arguments": given or {}}
    if version == VERSION:
        params["_meta"] = {**ENVELOPE, **meta}
    elif meta:
        params["_meta"] = meta
    region = [("mcp-param-region", given["region"])] if name == "by_region" and given else []
    return sent(request("tools/call", params), version, *region)
