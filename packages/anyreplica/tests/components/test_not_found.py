"""Tests of resources that do not exist: the error, which is the same in each protocol version, and the log."""

from collections.abc import Iterator
from typing import Any

import pytest
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from conftest import Server, until
from tests.calls import BOTH, VERSION, call, legacy, modern, text

VERSIONS = (*HANDSHAKE_PROTOCOL_VERSIONS, VERSION)
MISSING = {
    "no-such://thing": "Resource not found: 'no-such://thing'",
    "template://greeting/1/1": "Resource not found: no greeting in '1'; the languages are en, de, fr, es",
    "item://4": "Resource not found: there are three items, and none is number 4",
    "item://four": "Resource not found: a parameter in the URI has a value of the wrong type",
    "size://huge": "Resource not found: a parameter in the URI has a value of the wrong type",
    "gone://now": "Resource not found: gone since yesterday",
}


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A replica with resources, some of which do not exist."""
    with Server(tmp_path_factory.mktemp("items") / "log", MCP_COMPONENTS="server,tests.packs.items") as server:
        yield server


def read(url: str, uri: str, version: str) -> dict[str, Any]:
    """Return the answer to a request for a resource."""
    if version == VERSION:
        reply = modern(url, "resources/read", {"uri": uri}, Accept=BOTH)
    else:
        reply = legacy(url, "resources/read", {"uri": uri}, **{"MCP-Protocol-Version": version, "Accept": BOTH})
    return dict(reply.json())


def test_a_missing_resource(items: Server) -> None:
    """A missing resource gets FastMCP's error code and its own text, and causes no error in the log."""
    for uri, message in MISSING.items():
        for version in VERSIONS:
            assert read(items.url, uri, version)["error"] == {"code": -32602, "message": message, "data": {"uri": uri}}
    assert read(items.url, "broken://x", "2025-11-25")["error"]["code"] == -32603
    until(lambda: "ValueError: invalid literal for int()" in items.output, "the log contains the traceback")
    before, _, after = items.output.partition("Error reading resource 'broken://x'")
    assert "Traceback" in after
    assert "Traceback" not in before
    assert " - ERROR - " not in before.rpartition("\n")[0]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_existing_resource_is_read(items: Server, version: str) -> None:
    """An existing resource is read, and its parameters get their declared types."""
    assert read(items.url, "item://3", version)["result"]["contents"][0]["text"] == "item 3"
    assert read(items.url, "size://small", version)["result"]["contents"][0]["text"] == "small"


def test_a_tool_gets_an_exception_for_a_missing_resource(items: Server) -> None:
    """A tool that reads a missing resource gets FastMCP's exception."""
    assert text(call(items.url, "read_or", {"uri": "item://2"})) == "item 2"
    assert text(call(items.url, "read_or", {"uri": "gone://now"})) == "nothing there: gone since yesterday"
    assert text(call(items.url, "read_or", {"uri": "no-such://x"})) == "nothing there: Unknown resource: 'no-such://x'"
