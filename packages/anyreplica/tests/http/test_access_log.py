"""Tests of the access log and of the request ids."""

import json
import logging
import re
import socket

import httpx
import pytest
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from anyreplica.http.access_log import AccessLog
from conftest import Server, StartServer, until
from tests.calls import legacy, modern
from tests.damage.wire import declared

LINE = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - [\w.-]+ - anyreplica\.access - INFO - "
    r"\[(?P<id>[^\]]+)\] (?P<rest>.+) \(\d+\.\dms\)"
)


def lines(server: Server) -> list[str]:
    """Return the access log's entries without time, id and duration."""
    return [match["rest"] for line in server.output.splitlines() if (match := LINE.fullmatch(line))]


def test_one_entry_per_request(start_server: StartServer) -> None:
    """The access log has one entry per request with its method and component, but no entries for health checks."""
    server = start_server()
    for family in (legacy, modern):
        for repeat in (1, 11):
            family(server.url, "tools/call", {"name": "echo", "arguments": {"message": "x", "repeat": repeat}})
        family(server.url, "tools/list")
        family(server.url, "resources/read", {"uri": "template://about"})
    for path in ("/healthz", "/health", "/readyz", "/version", "/nothing"):
        httpx.get(server.url + path)
    until(lambda: "/nothing" in server.output, "the log contains the last request")
    both = [
        "✓ 200 POST /mcp tools/call echo",
        "✗ 200 POST /mcp tools/call echo",
        "✓ 200 POST /mcp tools/list",
        "✓ 200 POST /mcp resources/read template://about",
    ]
    assert lines(server) == [*both, *both, "✓ 200 GET /version", "✗ 404 GET /nothing"]


@pytest.mark.parametrize("given", ["abc-123_X.y", "a" * 64])
def test_a_well_formed_id_is_kept(local_replicas: Server, given: str) -> None:
    """A valid request id from the client appears in the response and in the log."""
    assert httpx.get(f"{local_replicas.url}/version", headers={"X-Request-ID": given}).headers["X-Request-ID"] == given
    until(lambda: f"[{given}]" in local_replicas.output, "the log contains the request id")


@pytest.mark.parametrize("given", ["", "a" * 65, "two words", "quote\"'", "[x] ✓ 200"])
def test_an_invalid_id_is_replaced(local_url: str, given: str) -> None:
    """A replica replaces an invalid request id, so that a client cannot write any text into the log."""
    reply = httpx.get(f"{local_url}/version", headers=[(b"X-Request-ID", given.encode())])
    assert re.fullmatch(r"[0-9a-f]{8}", reply.headers["X-Request-ID"])


def test_json_lines(start_server: StartServer) -> None:
    """With LOG_FORMAT=json each log entry is one JSON object on one line, tracebacks included."""
    server = start_server(LOG_FORMAT="json", MCP_COMPONENTS="tests.packs.hostile", REPLICA_NAME="r1")
    legacy(server.url, "tools/call", {"name": "raises", "arguments": {}}, **{"X-Request-ID": "json-1"})
    until(lambda: "anyreplica.access" in server.output, "the access log contains the call")
    (*paths, starts, ready, error, access) = [json.loads(line) for line in server.output.splitlines()]
    assert starts["message"].startswith("template-mcp 0.1.0 (anyreplica 0.2.0), replica r1: ")
    assert all(line["message"].startswith("Path of ") for line in paths)
    assert ready["message"] == "Ready"
    assert error["exception"].endswith("ValueError: the password is hunter2")
    assert (error["level"], error["request_id"], error["replica"]) == ("ERROR", "json-1", "r1")
    expected = {"method": "POST", "path": "/mcp", "status": 200, "failed": True}
    expected |= {"rpc_method": "tools/call", "rpc_name": "raises"}
    assert {key: access[key] for key in expected} == expected
    assert access["ms"] > 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", access["time"])


def test_no_caller_writes_lines_of_its_own(start_server: StartServer) -> None:
    """A caller cannot write log lines: the log escapes control characters and cuts long names."""
    server = start_server()
    httpx.get(f"{server.url}/a%0Ab%1b[31m")
    legacy(server.url, "tools/call", {"name": "x\n2026 - forged\x1b[31m\u2028", "arguments": {}})
    legacy(server.url, "y" * 1_000)
    until(lambda: len(lines(server)) == 3, "the access log contains three entries")
    assert lines(server)[0] == "✗ 404 GET /a%0Ab%1b[31m"
    assert lines(server)[1] == r"✗ 200 POST /mcp tools/call x\n2026 - forged\x1b[31m\u2028"
    assert lines(server)[2].endswith(" " + "y" * 200)


def test_a_client_that_disconnects_is_logged_as_499(start_server: StartServer) -> None:
    """The access log records status 499 for a client that disconnects before it has sent its body."""
    server = start_server()
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(declared(9) + b"{")
    until(lambda: "✗ 499 POST /mcp" in server.output, "the access log contains the request with status 499")
    assert "Traceback" not in server.output


def test_an_exception_is_a_bare_500_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """An exception in the app that the access log wraps causes a plain 500 reply and one log entry with a traceback."""

    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise ValueError("secret")

    with caplog.at_level(logging.INFO):
        reply = TestClient(AccessLog(broken, "replica", [], ())).get("/")
    assert (reply.status_code, reply.text) == (500, "Internal Server Error")
    assert re.fullmatch(r"[0-9a-f]{8}", reply.headers["X-Request-ID"])
    assert [record.message for record in caplog.records if record.exc_info] == ["Unhandled error"]
