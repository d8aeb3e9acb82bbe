"""Tests of habits of clients: short time limits, HTTP/1.0, tokens that are null, and methods that they only try."""

import asyncio
import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from conftest import Server, until
from tests.calls import BOTH, ENVELOPE, VERSION, call, request
from tests.damage import wire
from tests.http.test_access_log import lines
from tests.mcp.paths.answers import events
from tests.mcp.paths.asked import HANDSHAKE, WARNINGS, sent
from tests.mcp.paths.both import Pair
from tests.metrics.page import Scrape
from tests.metrics.test_requests import TOTAL

pytestmark = WARNINGS


@pytest.fixture(scope="module")
def habits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A replica with its default settings."""
    log = tmp_path_factory.mktemp("client_habits") / "log"
    with Server(log, MCP_COMPONENTS="server,tests.packs.waiting,tests.packs.results") as server:
        yield server


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_call_outlives_the_time_limit_of_its_client(habits: Server, mode: str) -> None:
    """A client waits at most 5 s for bytes. It gets the head of the reply before, and then the result as an event."""
    heads: asyncio.Queue[str] = asyncio.Queue()

    async def note(response: httpx2.Response) -> None:
        await heads.put(response.headers.get("content-type", ""))

    async with (
        asyncio.timeout(60),
        httpx2.AsyncClient(event_hooks={"response": [note]}, timeout=5) as http,
        Client(streamable_http_client(f"{habits.url}/mcp", http_client=http), mode=mode) as client,
    ):
        waiting = asyncio.ensure_future(client.call_tool("wait", {"key": mode}))
        while await heads.get() != "text/event-stream":
            pass
        await asyncio.to_thread(call, habits.url, "release", {"key": mode})
        assert not (await waiting).is_error
        assert (await client.list_tools()).tools


def test_a_client_of_http_1_0_gets_a_stream_without_chunks(habits: Server) -> None:
    """An event stream to an HTTP/1.0 client is not chunked (RFC 9112, section 6.1). The connection ends it."""
    asked = wire.post(request("tools/call", {"name": "reports"}), Accept=BOTH).replace(b"HTTP/1.1", b"HTTP/1.0")
    with socket.create_connection(("127.0.0.1", habits.port), 60) as connection:
        connection.sendall(asked)
        head, _, body = b"".join(iter(lambda: connection.recv(65536), b"")).partition(b"\r\n\r\n")
    assert b"content-type: text/event-stream" in head.lower()
    assert b"transfer-encoding" not in head.lower()
    *_, last = (json.loads(event) for event in events(body))
    assert last["result"]["isError"] is False


def test_methods_that_clients_only_try_are_no_errors(habits: Server) -> None:
    """GET and DELETE of /mcp get 405, but neither the log nor the metrics count an error. A PUT is an error."""
    for method in ("GET", "DELETE", "PUT"):
        assert httpx.request(method, f"{habits.url}/mcp", headers={"Accept": BOTH}).status_code == 405
    until(lambda: "405 PUT /mcp" in habits.output, "the log contains the last request")
    found = [line for line in lines(habits) if " 405 " in line]
    assert found == ["✓ 405 GET /mcp", "✓ 405 DELETE /mcp", "✗ 405 PUT /mcp"]
    assert Scrape(habits.url).value(TOTAL, method="http", outcome="rpc_error") == 1


@pytest.mark.parametrize("version", [HANDSHAKE, VERSION])
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "reports"}),
        ("tools/call", {"name": "text"}),
        ("tools/list", {}),
        ("resources/read", {"uri": "template://about"}),
    ],
)
def test_a_token_that_is_null_is_none(pair: Pair, method: str, params: dict[str, Any], version: str) -> None:
    """A progress token that is null, as clients in Java, C# and Go write it, is the same as no token."""
    envelope = ENVELOPE if version == VERSION else {}
    null, none = (
        pair.check(sent(request(method, {**params, "_meta": {**envelope, **token}}), version))
        for token in ({"progressToken": None}, {})
    )
    assert null == none
    assert "result" in null.message
