"""A server of the SDK gives the same answers as in the SDK's own app, in both protocol versions."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

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
_DIFFERENT: list[tuple[Callable[[], Any], Any, tuple[int, str], str]] = [
    (shop.make, prompt("none"), (-32602, "Unknown prompt: none"), ""),
    (shop.make, prompt("greet"), (-32602, "Missing required arguments: {'name'}"), ""),
    (shop.make, prompt("greet", name="Ada", loud="x"), (-32602, "Error rendering prompt greet"), ""),
    (shop.make, prompt("broken_prompt"), (-32603, "Error rendering prompt broken_prompt"), ""),
    (low.make, tool("crash", text="x"), _SECRET, "a secret"),
    (low.make, ("resources/read", {"uri": "low://crash"}), _SECRET, "a secret"),
]
"""Requests, the code and text of the error, and its text in the SDK's own app if it is another one."""


@pytest.mark.parametrize("version", [_HANDSHAKE, VERSION])
def test_some_errors_are_clearer_or_hide_their_text(version: str) -> None:
    """The error of a prompt has the code of the protocol. A crash of a low-level server never shows its text."""
    for make, asked, wanted, text_of_sdk in _DIFFERENT:
        with both(make) as (ours, theirs):
            found, expected = (answer(each, version, *asked)[1][-1]["error"] for each in (ours, theirs))
        assert (found["code"], found["message"]) == wanted
        of_sdk = (0, text_of_sdk or wanted[1]) if version == _HANDSHAKE else _SECRET
        assert (expected["code"], expected["message"]) == of_sdk


def test_a_question_that_cannot_be_sent_says_why() -> None:
    """The error has the code of the SDK's, and a text that names what is missing."""
    reasons = {_HANDSHAKE: "HANDSHAKE_SESSIONS is off", VERSION: f"protocol version {VERSION} does not allow it"}
    with both(shop.make) as (ours, theirs):
        for version, reason in reasons.items():
            found, expected = (answer(each, version, *tool("elicit"))[1][-1]["error"] for each in (ours, theirs))
            assert found["code"] == expected["code"] == -32600
            assert reason in found["message"]
