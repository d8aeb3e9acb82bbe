"""Tests of both paths with odd values in each part of a request and each form of each header."""

import json
from typing import Any

import pytest
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from tests.calls import ENVELOPE, VERSION, request
from tests.damage.fields import FORMS, in_form
from tests.damage.messages import META, PARAMS
from tests.damage.wire import Request
from tests.mcp.paths.asked import HANDSHAKE, WARNINGS, sent
from tests.mcp.paths.both import Pair

pytestmark = [pytest.mark.slow, *WARNINGS]


_NAMES = ["text", "", " text", "text ", "TEXT", "ä", "text\x00", "=?base64?dGV4dA==?=", "=?base64?", "=?", "no such"]
_NAMES += ["1"]


@pytest.mark.parametrize("version", [HANDSHAKE, VERSION])
@pytest.mark.parametrize("method", ["tools/call", "tools/list", "prompts/get", "no/such"])
def test_each_form_of_a_header_gets_one_answer(pair: Pair, method: str, version: str) -> None:
    """The fast path accepts and refuses exactly the same header forms as the SDK."""
    for name in _NAMES if method == "tools/call" else ["text"]:
        params = {"_meta": ENVELOPE, **({} if method == "tools/list" else {"name": name})}
        body = json.dumps(request(method, params)).encode()
        for odd in ("mcp-protocol-version", "mcp-method", "mcp-name"):
            for form in ["right", *FORMS]:
                routing = {"mcp-protocol-version": version, "mcp-method": method, "mcp-name": name}
                headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
                for key, value in routing.items():
                    headers += [(key.encode(), each) for each in in_form(value, form if key == odd else "right")]
                pair.check(Request(body, tuple(headers)))


_ODD: list[Any] = [None, True, False, 0, 1, 1.5, -0.0, 10**30, "", "x", "1.0", "2.0", [], ["a"], {}, {"a": None}]
_ODD += [{"version": "1.0"}, {"version": "2.0"}, {"version": 2}, {"name": "n", "version": "1"}, "debug", VERSION]
_ODD += [{"roots": {"listChanged": 1}}]


VERSIONS = [pytest.param(HANDSHAKE_PROTOCOL_VERSIONS[0], marks=pytest.mark.slow), HANDSHAKE, VERSION]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["text", "versioned", "context_at_large", "reports"])
def test_each_oddity_of_a_call_gets_one_answer(pair: Pair, name: str, version: str) -> None:
    """Both paths give the same answer for each kind of value in each part of `params` and `_meta` of a call."""
    envelope = ENVELOPE if version == VERSION else {}
    for odd in _ODD:
        for key in META:
            pair.check(sent(request("tools/call", {"name": name, "_meta": {**envelope, key: odd}}), version))
        for key in sorted({*PARAMS, "arguments", "_meta"} - {"name"}):
            pair.check(sent(request("tools/call", {"name": name, "_meta": envelope, key: odd}), version))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("method", ["tools/list", "resources/templates/list", "server/discover", "ping"])
def test_each_oddity_of_a_list_gets_one_answer(pair: Pair, method: str, version: str) -> None:
    """Both paths give the same answer to an odd list request, of which the fast path caches only valid ones."""
    envelope = ENVELOPE if version == VERSION else {}
    pair.check(sent({"jsonrpc": "2.0", "id": 1, "method": method}, version))
    pair.check(sent({"jsonrpc": "2.0", "id": 1, "method": method, "params": None}, version))
    for odd in _ODD:
        for key in META:
            pair.check(sent(request(method, {"_meta": {**envelope, key: odd}}), version))
        for key in ("cursor", "extra", "_meta"):
            pair.check(sent(request(method, {"_meta": envelope, key: odd}), version))
