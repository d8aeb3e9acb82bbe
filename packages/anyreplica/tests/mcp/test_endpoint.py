"""Tests of POST /mcp with both protocols, and of the errors for invalid requests."""

import json
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from conftest import Server, StartServer, generated, until
from tests.calls import ENVELOPE, HEADERS, VERSION, call, legacy, modern, post, request, text
from tests.damage.dice import Dice
from tests.damage.messages import CALLS, damaged, encoded, message


def error(reply: httpx.Response) -> dict[str, Any]:
    """Return the JSON-RPC error of a reply."""
    assert reply.headers["content-type"] == "application/json"
    body = reply.json()
    assert body["jsonrpc"] == "2.0"
    found: dict[str, Any] = body["error"]
    return found


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_a_bare_call_needs_no_handshake(local_url: str, path: str) -> None:
    """A call without a handshake succeeds, and the replica issues no session."""
    reply = httpx.post(local_url + path, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers=HEADERS)
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "application/json"
    assert {tool["name"] for tool in reply.json()["result"]["tools"]} >= {"add", "echo", "server_info"}
    assert "mcp-session-id" not in reply.headers


def test_the_stateless_protocol(local_url: str) -> None:
    """The stateless protocol needs discovery instead of a handshake, and an envelope in each request."""
    discovered = modern(local_url, "server/discover").json()["result"]
    assert discovered["supportedVersions"] == [VERSION]
    result = modern(local_url, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}).json()["result"]
    assert result["structuredContent"] == {"result": 3}
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "template-mcp"


@pytest.mark.parametrize(
    "content_type", [None, "", "text/plain", "application/x-www-form-urlencoded", "application/jsonx"]
)
def test_a_wrong_content_type_is_refused(local_url: str, content_type: str | None) -> None:
    """A wrong Content-Type gets 415 with the right one, and a wrong Accept gets 406. Parameters are fine."""
    headers = {"Accept": "application/json"} | ({} if content_type is None else {"Content-Type": content_type})
    reply = post(local_url, content=json.dumps(request("tools/list")), headers=headers)
    assert reply.status_code == 415
    assert "Content-Type: application/json" in error(reply)["message"]
    assert legacy(local_url, "tools/list", {}, **{"Content-Type": "application/json; charset=utf-8"}).status_code == 200
    reply = legacy(local_url, "tools/list", Accept="text/html")
    assert reply.status_code == 406
    assert "application/json" in error(reply)["message"]


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "OPTIONS"])
def test_only_post(local_url: str, method: str) -> None:
    """A replica answers every method except POST with 405, because there is no stream to open and no session to end."""
    reply = httpx.request(method, f"{local_url}/mcp")
    assert reply.status_code == 405
    assert reply.headers["Allow"] == "POST"
    assert "POST" in error(reply)["message"]


@pytest.mark.parametrize("body", [b"", b"{", b"nonsense", b"\xff\xfe", b'{"jsonrpc":'])
def test_invalid_json_is_a_parse_error(local_url: str, body: bytes) -> None:
    """A body that is not valid JSON gets the error -32700 (JSON-RPC 2.0, section 5.1)."""
    reply = post(local_url, content=body, headers=HEADERS)
    assert reply.status_code == 400
    assert error(reply)["code"] == -32700


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_too_large_is_413(start_server: StartServer, chunked: bool) -> None:
    """A replica refuses a large body by its declared length or as soon as the body exceeds the limit."""
    server = start_server(MAX_BODY_BYTES="2000")
    ballast = json.dumps(request("tools/call", {"name": "echo", "arguments": {"message": "x" * 3000}})).encode()
    content: Any = iter([ballast[:1000], ballast[1000:]]) if chunked else ballast
    reply = post(server.url, content=content, headers=HEADERS)
    assert reply.status_code == 413
    assert "2000 bytes" in error(reply)["message"]
    assert text(call(server.url, "echo", {"message": "x" * 1000})) == "x" * 1000


def test_an_unknown_method_and_an_unknown_tool(local_url: str) -> None:
    """An unknown method gets the error -32601, and an unknown tool gets a tool error."""
    assert error(legacy(local_url, "no/such"))["code"] == -32601
    assert call(local_url, "no_such")["isError"]


def test_a_mismatch_of_header_and_body_is_refused(local_url: str) -> None:
    """With the stateless protocol, headers and body must agree, because a balancer may route by header."""
    headers = {**HEADERS, "MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/list"}
    reply = post(local_url, json=request("tools/call", {"name": "echo", "_meta": ENVELOPE}), headers=headers)
    assert reply.status_code == 400
    assert error(reply)["code"] == -32020


@pytest.mark.parametrize("number", [None, 1.5, True, [1], {"a": 1}])
def test_an_invalid_id_is_refused(local_url: str, number: Any) -> None:
    """A replica refuses an invalid request id with 400. As a notification, the request would wait forever."""
    for method in ("ping", "tools/list"):
        reply = post(local_url, json=request(method, number=number), headers=HEADERS)
        assert reply.status_code == 400
        said = "The id of a request must be a string or an integer; a notification must not have an id."
        assert error(reply) == {"code": -32600, "message": said}


def test_a_wrong_prompt_argument_is_named(local_url: str, local_replicas: Server) -> None:
    """The error for a wrong prompt argument has its name only, and its value cannot start a line of the log."""
    missing = error(legacy(local_url, "prompts/get", {"name": "summarize", "arguments": {"sentences": "2"}}))
    assert missing == {"code": -32602, "message": "Missing required arguments: {'text'}"}
    forged = "x\n2026-01-02 06:33:03,969 - anyreplica.access - INFO - [c565931a] forged"
    reply = legacy(local_url, "prompts/get", {"name": "summarize", "arguments": {"text": "x", "sentences": forged}})
    assert error(reply) == {"code": -32602, "message": "Could not convert argument 'sentences' to its type"}
    until(lambda: "prompts/get summarize" in local_replicas.output, "the access log contains the request")
    assert not any(line.startswith("2026-01-02 06:33:03") for line in local_replicas.output.splitlines())


def test_a_foreign_origin_is_refused(local_url: str) -> None:
    """A replica refuses foreign origins and hosts, so that a web page cannot reach a local server (DNS rebinding)."""
    assert legacy(local_url, "tools/list", Origin="https://evil.example").status_code == 403
    assert legacy(local_url, "tools/list", Host="evil.example").status_code == 421
    assert legacy(local_url, "tools/list", Origin=local_url).status_code == 200


def test_allowed_hosts_and_origins(start_server: StartServer) -> None:
    """A replica accepts the hosts and origins that ALLOWED_HOSTS and ALLOWED_ORIGINS name."""
    server = start_server(ALLOWED_HOSTS="mcp.example.com", ALLOWED_ORIGINS="https://app.example.com")
    assert legacy(server.url, "tools/list", Host="mcp.example.com").status_code == 200
    assert legacy(server.url, "tools/list", Host="other.example.com").status_code == 421
    assert legacy(server.url, "tools/list", Origin="https://app.example.com").status_code == 200
    assert legacy(server.url, "tools/list", Origin="https://other.example.com").status_code == 403


@st.composite
def _bodies(draw: st.DrawFn) -> bytes:
    dice = Dice.drawn(draw)
    return encoded(dice, damaged(dice, message(dice, None, CALLS)))


@generated(300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=_bodies(), new=st.booleans())
def test_no_message_breaks_the_server(local_url: str, body: bytes, new: bool) -> None:
    """Any JSON body gets a reply below 500, and the replica continues to serve."""
    with httpx.Client(base_url=local_url, verify=False) as client:
        routing = {"MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/call"} if new else {}
        reply = client.post("/mcp", content=body, headers={**HEADERS, **routing})
        assert reply.status_code < 500, (body, reply.text)
        again = client.post("/mcp", json=request("ping"), headers=HEADERS)
        assert again.json() == {"jsonrpc": "2.0", "id": 1, "result": {}}
