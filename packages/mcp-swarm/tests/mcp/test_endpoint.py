"""POST /mcp: both families, stateless, and what a bad request is told."""

import json
import socket
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import Server, StartServer, until
from tests.calls import ENVELOPE, HEADERS, VERSION, call, legacy, modern, post, request, text


def error(reply: httpx.Response) -> dict[str, Any]:
    """A reply's JSON-RPC error."""
    assert reply.headers["content-type"] == "application/json"
    body = reply.json()
    assert body["jsonrpc"] == "2.0"
    found: dict[str, Any] = body["error"]
    return found


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_a_bare_call_needs_no_handshake(local_url: str, path: str) -> None:
    """As curl sends it; no session is issued."""
    reply = httpx.post(local_url + path, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers=HEADERS)
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "application/json"
    assert {tool["name"] for tool in reply.json()["result"]["tools"]} >= {"add", "echo", "server_info"}
    assert "mcp-session-id" not in reply.headers


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_the_handshake_negotiates_and_issues_no_session(local_url: str, version: str) -> None:
    """`initialize` on one replica, the rest anywhere."""
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    reply = legacy(local_url, "initialize", params)
    assert reply.json()["result"]["protocolVersion"] == version
    assert reply.json()["result"]["serverInfo"] == {"name": "template-mcp", "version": "0.1.0"}
    assert "mcp-session-id" not in reply.headers
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert post(local_url, json=initialized, headers={**HEADERS, "MCP-Protocol-Version": version}).status_code == 202
    reply = legacy(local_url, "tools/list", {}, **{"MCP-Protocol-Version": version, "Mcp-Session-Id": "made-up"})
    assert reply.status_code == 200


def test_the_stateless_era(local_url: str) -> None:
    """Discovery instead of a handshake, an envelope on each request."""
    discovered = modern(local_url, "server/discover").json()["result"]
    assert discovered["supportedVersions"] == [VERSION]
    result = modern(local_url, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}).json()["result"]
    assert result["structuredContent"] == {"result": 3}
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "template-mcp"


@pytest.mark.parametrize(
    "content_type", [None, "", "text/plain", "application/x-www-form-urlencoded", "application/jsonx"]
)
def test_a_wrong_content_type_is_told_the_right_one(local_url: str, content_type: str | None) -> None:
    """curl -d sends a form unless told otherwise."""
    headers = {"Accept": "application/json"} | ({} if content_type is None else {"Content-Type": content_type})
    reply = post(local_url, content=json.dumps(request("tools/list")), headers=headers)
    assert reply.status_code == 415
    assert "Content-Type: application/json" in error(reply)["message"]


def test_a_charset_is_fine(local_url: str) -> None:
    """Parameters of the media type don't matter."""
    assert legacy(local_url, "tools/list", {}, **{"Content-Type": "application/json; charset=utf-8"}).status_code == 200


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "OPTIONS"])
def test_only_post(local_url: str, method: str) -> None:
    """There is no stream to open and no session to end."""
    reply = httpx.request(method, f"{local_url}/mcp")
    assert reply.status_code == 405
    assert reply.headers["Allow"] == "POST"
    assert "POST" in error(reply)["message"]


def test_an_accept_without_json_is_406(local_url: str) -> None:
    """The SDK checks it."""
    reply = legacy(local_url, "tools/list", Accept="text/html")
    assert reply.status_code == 406
    assert "application/json" in error(reply)["message"]


@pytest.mark.parametrize("body", [b"", b"{", b"nonsense", b"\xff\xfe", b'{"jsonrpc":'])
def test_what_is_no_json_is_a_parse_error(local_url: str, body: bytes) -> None:
    """-32700, JSON-RPC 2.0 section 5.1."""
    reply = post(local_url, content=body, headers=HEADERS)
    assert reply.status_code == 400
    assert error(reply)["code"] == -32700


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_too_large_is_413(start_server: StartServer, chunked: bool) -> None:
    """By its announced length before it is read, or as soon as it grows too large."""
    server = start_server(MAX_BODY_BYTES="2000")
    ballast = json.dumps(request("tools/call", {"name": "echo", "arguments": {"message": "x" * 3000}})).encode()
    content: Any = iter([ballast[:1000], ballast[1000:]]) if chunked else ballast
    reply = post(server.url, content=content, headers=HEADERS)
    assert reply.status_code == 413
    assert "2000 bytes" in error(reply)["message"]
    assert text(call(server.url, "echo", {"message": "x" * 1000})) == "x" * 1000


def test_a_caller_that_stops_half_way_harms_nobody(local_url: str, local_replicas: Server) -> None:
    """Others are served while it waits, and after it is gone."""
    head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    with socket.create_connection(("127.0.0.1", local_replicas.port)) as connection:
        connection.sendall(head)
        for _ in range(12):
            assert text(call(local_url, "echo", {"message": "beside"})) == "beside"
    assert text(call(local_url, "echo", {"message": "after"})) == "after"


def test_an_unknown_method_and_an_unknown_tool(local_url: str) -> None:
    """-32601 for the first; a tool error for the second."""
    assert error(legacy(local_url, "no/such"))["code"] == -32601
    assert call(local_url, "no_such")["isError"]


def test_a_mismatch_of_header_and_body_is_refused(local_url: str) -> None:
    """2026-07-28: a balancer may route by header, so the body must agree."""
    headers = {**HEADERS, "MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/list"}
    reply = post(local_url, json=request("tools/call", {"name": "echo", "_meta": ENVELOPE}), headers=headers)
    assert reply.status_code == 400
    assert error(reply)["code"] == -32020


def test_a_prompt_without_an_argument_is_told_which(local_url: str) -> None:
    """-32602, and nothing in the log that looks like a fault of the server."""
    missing = error(legacy(local_url, "prompts/get", {"name": "summarize", "arguments": {"sentences": "2"}}))
    assert missing == {"code": -32602, "message": "Missing required arguments: text"}


@pytest.mark.parametrize("number", [None, 1.5, True, [1], {"a": 1}])
def test_an_id_that_is_none_is_refused(local_url: str, number: Any) -> None:
    """The SDK takes it for a notification and says 202, and the caller waits for ever."""
    for method in ("ping", "tools/list"):
        reply = post(local_url, json=request(method, number=number), headers=HEADERS)
        assert reply.status_code == 400
        assert error(reply) == {
            "code": -32600,
            "message": "The id of a request must be a string or an integer; a notification must not have an id.",
        }


def test_a_prompt_with_an_argument_of_a_wrong_type_is_told_which(local_url: str, local_replicas: Server) -> None:
    """Without pydantic's words, and nothing a caller sends begins a line of the log."""
    forged = "x\n2026-01-02 06:33:03,969 - mcp_swarm.access - INFO - [c565931a] forged"
    reply = legacy(local_url, "prompts/get", {"name": "summarize", "arguments": {"text": "x", "sentences": forged}})
    assert error(reply) == {"code": -32602, "message": "Arguments of a wrong type: sentences"}
    until(lambda: "prompts/get summarize" in local_replicas.output, "the access log's line")
    assert not any(line.startswith("2026-01-02 06:33:03") for line in local_replicas.output.splitlines())


def test_a_foreign_origin_is_refused(local_url: str) -> None:
    """A page in a browser must not reach a server on loopback (DNS rebinding)."""
    assert legacy(local_url, "tools/list", Origin="https://evil.example").status_code == 403
    assert legacy(local_url, "tools/list", Host="evil.example").status_code == 421
    assert legacy(local_url, "tools/list", Origin=local_url).status_code == 200


def test_allowed_hosts_and_origins(start_server: StartServer) -> None:
    """What the settings name passes, too."""
    server = start_server(ALLOWED_HOSTS="mcp.example.com", ALLOWED_ORIGINS="https://app.example.com")
    assert legacy(server.url, "tools/list", Host="mcp.example.com").status_code == 200
    assert legacy(server.url, "tools/list", Host="other.example.com").status_code == 421
    assert legacy(server.url, "tools/list", Origin="https://app.example.com").status_code == 200
    assert legacy(server.url, "tools/list", Origin="https://other.example.com").status_code == 403


def test_an_event_stream_on_request(start_server: StartServer) -> None:
    """JSON_RESPONSE=false: the SDK's own behaviour."""
    server = start_server(JSON_RESPONSE="false")
    reply = legacy(server.url, "tools/list", Accept="application/json, text/event-stream")
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/event-stream")


def test_sessions_on_request(start_server: StartServer) -> None:
    """STATELESS_HTTP=false: the handshake issues a session, which the next request needs."""
    server = start_server(STATELESS_HTTP="false")
    assert legacy(server.url, "tools/list").status_code == 400
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    session = legacy(server.url, "initialize", params).headers["Mcp-Session-Id"]
    assert legacy(server.url, "tools/list", {}, **{"Mcp-Session-Id": session}).status_code == 200
    assert httpx.delete(f"{server.url}/mcp", headers={"Mcp-Session-Id": session}).status_code == 200


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
ALMOST = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | JSON,
        "id": JSON,
        "method": st.sampled_from(["tools/call", "tools/list", "ping", "resources/read", "prompts/get"]) | JSON,
        "params": st.fixed_dictionaries({}, optional={"name": st.just("echo") | JSON, "arguments": JSON, "uri": JSON})
        | JSON,
    },
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(message=ALMOST | JSON, new=st.booleans())
def test_no_message_breaks_the_server(local_url: str, message: Any, new: bool) -> None:
    """Whatever JSON comes, the reply is no 5xx, and the replica that gave it serves on."""
    body = json.dumps(message).encode("utf-8", "replace")
    with httpx.Client(base_url=local_url, verify=False) as client:
        routing = {"MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/call"} if new else {}
        reply = client.post("/mcp", content=body, headers={**HEADERS, **routing})
        assert reply.status_code < 500, (body, reply.text)
        again = client.post("/mcp", json=request("ping"), headers=HEADERS)
        assert again.json() == {"jsonrpc": "2.0", "id": 1, "result": {}}
