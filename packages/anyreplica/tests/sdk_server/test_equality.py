"""A server of the SDK gives the same answers as in the SDK's own app, in both protocol versions."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import fastmcp
import pytest
from mcp.server.transport_security import TransportSecuritySettings
from starlette.testclient import TestClient

from anyreplica import create_app
from anyreplica.testing import replica
from tests.calls import BOTH, ENVELOPE, VERSION
from tests.calls import request as rpc
from tests.damage.wire import routing
from tests.mcp.paths.answers import events
from tests.sdk_server.served import low, shop

pytestmark = [pytest.mark.filterwarnings("ignore:.*SEP-2577")]

_HANDSHAKE = "2025-11-25"
_SEALED = re.compile(r'("requestState": ?)"v1[^"]*"')
_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
_HELLO = {"protocolVersion": _HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


def tool(name: str, meta: dict[str, Any] | None = None, /, **arguments: Any) -> tuple[str, dict[str, Any]]:
    return "tools/call", {"name": name, "arguments": arguments, **({"_meta": meta} if meta else {})}


def prompt(name: str, /, **arguments: Any) -> tuple[str, dict[str, Any]]:
    return "prompts/get", {"name": name, "arguments": arguments}


def complete(name: str) -> tuple[str, dict[str, Any]]:
    ref = {"type": "ref/prompt", "name": "greet"}
    return "completion/complete", {"ref": ref, "argument": {"name": name, "value": "A"}}


_LISTS = ["tools/list", "resources/list", "resources/templates/list", "prompts/list", "server/discover", "ping"]
_OF_BOTH: list[tuple[str, dict[str, Any]]] = [
    *((method, {}) for method in _LISTS),
    ("initialize", _HELLO),
    ("tools/list", {"cursor": "2"}),
    ("logging/setLevel", {"level": "error"}),
    ("resources/subscribe", {"uri": "shop://today"}),
    ("nothing/at_all", {}),
    ("tools/call", {"arguments": {}}),
    ("tools/call", {"name": 7}),
    tool("missing"),
]
_OF_SHOP = [
    tool("add", a=1),
    tool("add", a="x"),
    tool("add", a=1, b=2, c=3),
    tool("find", name="tea"),
    tool("items"),
    tool("picture"),
    tool("whole"),
    tool("tell", text="hi"),
    tool("tell", {"progressToken": "p", "io.modelcontextprotocol/logLevel": "info"}, text="hi"),
    tool("refuse"),
    tool("crash"),
    tool("protocol_error"),
    *(("resources/read", {"uri": f"shop://{path}"}) for path in ("today", "logo", "broken", "items/tea", "none")),
    prompt("greet", name="Ada"),
    prompt("greet", name="Ada", loud="true"),
    prompt("several"),
    complete("name"),
    complete("crash"),
    tool("add_tool"),
    tool("later", text="x"),
    ("tools/list", {}),
]
_OF_LOW = [
    *(tool(name, text="x") for name in ("echo", "fail", "wrong", "ask", "forbidden")),
    ("resources/read", {"uri": "low://x"}),
    ("own/count", {"upTo": 3}),
    ("own/count", {"up_to": "x"}),
    ("tools/call", {"name": "ask", "requestState": "round 1", "inputResponses": {"sure": {"action": "decline"}}}),
]


@contextmanager
def both(make: Callable[[], Any]) -> Iterator[tuple[TestClient, TestClient]]:
    """Serve a new server with this package, and another new one with the SDK's own app."""
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    sdk = make().streamable_http_app(stateless_http=True, transport_security=security)
    with replica(lambda: create_app(make())) as ours, TestClient(sdk, base_url="http://localhost") as theirs:
        yield ours.http, theirs  # type: ignore[misc]  # `replica` uses a TestClient


def answer(
    client: TestClient, version: str, method: str, params: dict[str, Any], text: str = "x"
) -> tuple[int, list[Any]]:
    """Send a request and return the status and all messages of the reply.

    Args:
        text: the header that repeats the argument `text` of tools of the low-level server.
    """
    if version == VERSION:
        params = {**params, "_meta": {**ENVELOPE, _CAPABILITIES: {"elicitation": {}}, **params.get("_meta", {})}}
    message = rpc(method, params)
    headers = {**routing(message, version), "accept": BOTH}
    if version == VERSION and method == "tools/call":
        headers["mcp-param-text"] = text
    reply = client.post("/mcp", json=message, headers=headers)
    found = events(reply.content) if "event-stream" in reply.headers["content-type"] else [reply.content]
    return reply.status_code, [json.loads(_SEALED.sub(r"\1 0", each.decode())) for each in found]


@pytest.mark.parametrize("version", [_HANDSHAKE, VERSION])
@pytest.mark.parametrize(
    ("make", "requests"), [(shop.make, _OF_SHOP), (low.make, _OF_LOW)], ids=["MCPServer", "Server"]
)
def test_every_answer_is_that_of_the_sdk(make: Callable[[], Any], requests: list[Any], version: str) -> None:
    """Lists, calls, structured output, errors, progress, log messages, images, rounds, completions and pages."""
    with both(make) as (ours, theirs):
        for method, params in (*_OF_BOTH, *requests):
            expected = answer(theirs, version, method, params)
            assert answer(ours, version, method, params) == expected, (method, params)
        wrong = tool("echo", text="x")
        assert answer(ours, version, *wrong, text="y") == answer(theirs, version, *wrong, text="y")


_SECRET = (-32603, "Internal server error")
_OF_PROMPTS = [
    (prompt("none"), (-32602, "Unknown prompt: none")),
    (prompt("greet"), (-32602, "Missing required arguments: {'name'}")),
    (prompt("greet", name="Ada", loud="x"), (-32602, "Error rendering prompt greet")),
    (prompt("broken_prompt"), (-32603, "Error rendering prompt broken_prompt")),
]
"""Requests, and the code and text of the error in the stateless protocol."""

_CRASHES = [tool("crash", text="x"), ("resources/read", {"uri": "low://crash"})]


def errors(ours: TestClient, theirs: TestClient, version: str, asked: Any) -> list[tuple[int, str]]:
    """Return the code and the text of an error of ours, and of the SDK's own app."""
    found = (answer(each, version, *asked)[1][-1]["error"] for each in (ours, theirs))
    return [(each["code"], each["message"]) for each in found]


def test_errors_of_prompts_have_a_text_in_both_protocols() -> None:
    """In the handshake protocol, they are those of the SDK. In the stateless one, the SDK hides their text."""
    with both(shop.make) as (ours, theirs):
        for asked, (code, text) in _OF_PROMPTS:
            assert errors(ours, theirs, _HANDSHAKE, asked) == [(0, text), (0, text)]
            assert errors(ours, theirs, VERSION, asked) == [(code, text), _SECRET]


@pytest.mark.parametrize("hidden", [True, False])
def test_a_crash_of_a_low_level_server_shows_its_text_only_if_the_setting_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, hidden: bool
) -> None:
    """With FASTMCP_MASK_ERROR_DETAILS=false, the error is that of the SDK. The log has the traceback in any case."""
    settings = fastmcp.settings.model_copy()
    if not hidden:
        settings.mask_error_details = False
    monkeypatch.setattr(fastmcp, "settings", settings)
    with both(low.make) as (ours, theirs):
        for asked in _CRASHES:
            expected = (0, "a secret")
            caplog.clear()
            assert errors(ours, theirs, _HANDSHAKE, asked) == [_SECRET if hidden else expected, expected]
            assert len([each for each in caplog.records if each.exc_info]) == 2
            assert errors(ours, theirs, VERSION, asked) == [_SECRET, _SECRET]


def test_a_question_that_cannot_be_sent_is_an_error_of_the_sdk(caplog: pytest.LogCaptureFixture) -> None:
    """The error is that of the SDK, so that code that catches it works. The log says why, for the operator."""
    reasons = {_HANDSHAKE: "HANDSHAKE_SESSIONS is off", VERSION: f"protocol version {VERSION} does not allow it"}
    caplog.set_level("INFO")
    with both(shop.make) as (ours, theirs):
        for version, reason in reasons.items():
            found, expected = errors(ours, theirs, version, tool("elicit"))
            assert found == expected
            assert reason in caplog.text
