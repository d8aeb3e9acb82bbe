"""Requests of all kinds that Hypothesis generates."""

import json
import re
from typing import Any

from hypothesis import strategies as st

from tests.calls import ENVELOPE, VERSION, request
from tests.mcp.paths.asked import HANDSHAKE, VERSIONS, sent
from tests.mcp.paths.forms import FORMS, in_form
from tests.mcp.paths.looks import WISHES
from tests.mcp.paths.tools import ARGUMENTS, CONTEXTS, SHIPPED, TOOLS, VALID
from tests.mcp.paths.wire import Sent

# Python does not write numbers in these forms.
_TOKENS = ["1e400", "-1e400", "1.0", "-0", "-0.0", "1E+2", "1e22", "1e-400", "0.1000000000000000055511151231257827"]
_TOKENS += ["12345678901234567890123456789012345", "18446744073709551616", "-9223372036854775809", "NaN", "-Infinity"]


_MARK = "this goes onto the wire without its quotes: "


def _encode(message: Any, *, ascii_only: bool) -> bytes:
    """Encode a body as JSON.

    A lone surrogate becomes an escape, or bytes that are not valid UTF-8.
    """
    written = json.dumps(message, ensure_ascii=ascii_only)
    return re.sub(f'"{_MARK}([^"]*)"', r"\1", written).encode("utf-8", "surrogatepass")


_TEXT = st.text(max_size=12) | st.sampled_from(
    [
        "",
        "nobody",
        "crash",
        "leave",
        "null",
        "1",
        "1.5",
        "true",
        "ä👋",
        "\ud800",
        "a\ud83d",
        "\x00",
        "NaN",
        "the text goes here",
        "ft",
    ]
)
_SCALAR = (
    st.none()
    | st.booleans()
    | st.integers(-3, 160)
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.sampled_from(_TOKENS).map(_MARK.__add__)
    | _TEXT
)
_ANY = st.recursive(
    _SCALAR,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=8,
)


def _mostly(usual: st.SearchStrategy[Any], otherwise: st.SearchStrategy[Any], parts: int = 6) -> st.SearchStrategy[Any]:
    """Return `otherwise` in one of `parts` cases, and `usual` in all other cases."""
    return st.integers(1, parts).flatmap(lambda number: otherwise if number == parts else usual)


@st.composite
def _arguments_for(draw: st.DrawFn, tool: str) -> Any:
    """Generate valid, almost valid or arbitrary arguments for a tool."""
    given = dict(VALID.get(tool, {}))
    for name in list(given):
        form = draw(st.sampled_from(["valid", "valid", "any", "gone", "null"]))
        if form == "any":
            given[name] = draw(_ANY)
        elif form == "gone":
            del given[name]
        elif form == "null":
            given[name] = None
    if draw(_mostly(st.just(False), st.just(True))):
        given[draw(_TEXT | st.sampled_from(["ctx", "one", "value", "self", "end"]))] = draw(_ANY)
    if draw(_mostly(st.just(False), st.just(True))):
        given["wish"] = draw(st.sampled_from(WISHES))
    return draw(_mostly(st.just(given), st.none() | _ANY, 10))


_CAPABILITIES = {"roots": {"listChanged": True}, "sampling": {}, "elicitation": {"form": {}}, "extensions": {"a/b": {}}}
META: dict[str, st.SearchStrategy[Any]] = {
    "io.modelcontextprotocol/protocolVersion": st.sampled_from([*VERSIONS, "2099-01-01"]) | _ANY,
    "io.modelcontextprotocol/clientCapabilities": st.just(_CAPABILITIES) | _ANY,
    "io.modelcontextprotocol/clientInfo": st.just({"name": "n", "version": "1", "title": "T", "x": 1}) | _ANY,
    "io.modelcontextprotocol/logLevel": st.sampled_from(["debug", "info", "error", "loud"]) | _ANY,
    "io.modelcontextprotocol/related-task": st.just({"taskId": "t"}) | _ANY,
    "progressToken": st.sampled_from([0, 7, "token", "", 10**30]) | _ANY,
    "fastmcp": st.sampled_from([{}, {"version": "1.0"}, {"version": None}, {"version": 1}]) | _ANY,
    "_fastmcp": st.just({"version": "2.0"}) | _ANY,
    "traceparent": st.just("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01") | _ANY,
    "tracestate": st.just("a=b") | _ANY,
    "com.example/own": _ANY,
}


@st.composite
def _metas(draw: st.DrawFn, version: str | None) -> Any:
    """Generate a valid, almost valid or arbitrary `_meta`."""
    meta: dict[str, Any] = dict(ENVELOPE) if version == VERSION else {}
    for key in draw(st.lists(st.sampled_from(sorted(META)), max_size=2)):
        meta[key] = draw(META[key])
    if draw(_mostly(st.just(False), st.just(True), 12)):
        meta.pop(draw(st.sampled_from(sorted(ENVELOPE))), None)
    return draw(_mostly(st.just(meta), st.none() | _ANY, 15))


OTHER_PARAMS: dict[str, st.SearchStrategy[Any]] = {
    "cursor": st.sampled_from(["", "1", "x"]) | _ANY,
    "inputResponses": st.just({"who": {"action": "accept", "content": {"name": "n"}}}) | _ANY,
    "requestState": st.just("made up") | _ANY,
    "task": st.just({"ttl": 1}) | _ANY,
    "uri": st.sampled_from(["template://about", "template://greeting/en/you", "no-such://uri"]) | _ANY,
    "name": st.sampled_from(["summarize", "text", "no such"]) | _ANY,
    "level": st.sampled_from(["debug", "loud"]) | _ANY,
    "extra": _ANY,
    "protocolVersion": st.sampled_from(VERSIONS) | _ANY,
    "capabilities": st.just({}) | _ANY,
    "clientInfo": st.just({"name": "n", "version": "1"}) | _ANY,
}
_USUAL_PARAMS: dict[str, tuple[str, ...]] = {
    "resources/read": ("uri",),
    "prompts/get": ("name",),
    "initialize": ("protocolVersion", "capabilities", "clientInfo"),
    "logging/setLevel": ("level",),
}
_METHODS = ["tools/list", "resources/list", "resources/templates/list", "prompts/list", "server/discover", "ping"]
_METHODS += [*_USUAL_PARAMS, "completion/complete", "tasks/get", "no/such", "", "notifications/initialized"]
_METHODS += ["notifications/cancelled", "notifications/progress", "tools/call/", "subscriptions/list"]

_WEIGHED = [*TOOLS, *SHIPPED * 5, *ARGUMENTS * 4, *CONTEXTS * 2, "no_such", "ä", "", "=?base64?dGV4dA==?=", " text"]
"""Tools to call. Tools that take arguments appear more often."""


@st.composite
def _messages(draw: st.DrawFn, version: str | None) -> dict[str, Any]:
    """Generate a valid or almost valid JSON-RPC request."""
    params: dict[str, Any] = {}
    if draw(_mostly(st.just(True), st.just(False), 4)):
        method = "tools/call"
        tool = draw(st.sampled_from(_WEIGHED))
        params["name"] = draw(_mostly(st.just(tool), _ANY, 20))
        params["arguments"] = draw(_arguments_for(tool))
        if params["arguments"] is None and draw(st.booleans()):
            del params["arguments"]
    else:
        method = draw(st.sampled_from(_METHODS))
        for key in _USUAL_PARAMS.get(method, ()):
            params[key] = draw(OTHER_PARAMS[key])
    if version == VERSION or draw(st.booleans()):
        params["_meta"] = draw(_metas(version))
    if draw(_mostly(st.just(False), st.just(True), 10)):
        key = draw(st.sampled_from(sorted(OTHER_PARAMS)))
        params[key] = draw(OTHER_PARAMS[key])
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": draw(_IDS), "method": method, "params": params}
    if draw(_mostly(st.just(False), st.just(True), 15)):
        key = draw(st.sampled_from(sorted(message)))
        message[key] = draw(_ANY)
        if draw(st.booleans()):
            del message[key]
    return message


_IDS = (
    st.sampled_from([1, 0, -1, 2**63, 10**40, "", "id", "ä👋\u2028", '"', "\x00", "the text goes here"]) | st.integers()
)


_ACCEPTS = [None, "application/json", "text/event-stream", "application/json, text/event-stream", "*/*", "text/html"]
_ACCEPTS += ["application/*;q=0.1, text/*", "APPLICATION/JSON", "", "application/json;q=0, text/event-stream"]
_TYPES = ["application/json; charset=utf-8", "text/plain", "APPLICATION/JSON", ""]
_EXTRA = [
    (b"mcp-session-id", b"made-up"),
    (b"last-event-id", b"1"),
    (b"origin", b"http://localhost:8000"),
    (b"origin", b"https://evil.example"),
    (b"mcp-param-region", b"north"),
    (b"mcp-param-region", b"south"),
    (b"mcp-param-other", b"x"),
    (b"traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    (b"authorization", b"Bearer secret"),
    (b"user-agent", b"caf\xe9"),
    (b"accept", b"text/html"),
]


@st.composite
def _heads(draw: st.DrawFn, message: Any, version: str | None) -> tuple[tuple[bytes, bytes], ...]:
    """Generate the headers that fit the body, or almost fit it."""
    message = message if isinstance(message, dict) else {}
    method, params = message.get("method"), message.get("params")
    params = params if isinstance(params, dict) else {}
    name = params.get("name") or params.get("uri")
    routing = {"mcp-protocol-version": version, "mcp-method": method, "mcp-name": name}
    headers: list[tuple[bytes, bytes]] = [(b"host", b"localhost:8000")]
    headers += [(b"content-type", draw(_mostly(st.just("application/json"), st.sampled_from(_TYPES), 30)).encode())]
    accept = draw(_mostly(st.sampled_from(_ACCEPTS[:4]), st.sampled_from(_ACCEPTS), 4))
    if accept is not None:
        headers.append((b"accept", accept.encode()))
    for key, value in routing.items():
        if not isinstance(value, str) or (version != VERSION and key != "mcp-protocol-version"):
            continue
        form = draw(_mostly(st.just("right"), st.sampled_from(FORMS), 15))
        try:
            headers += [(key.encode(), each) for each in in_form(value, form)]
        except UnicodeEncodeError:
            headers.append((key.encode(), b"surrogate"))
    headers += draw(st.lists(st.sampled_from(_EXTRA), max_size=1))
    return tuple(headers)


@st.composite
def requests(draw: st.DrawFn) -> Sent:
    """Generate any request of either protocol."""
    version = draw(st.sampled_from(VERSIONS) | st.sampled_from([HANDSHAKE, VERSION, VERSION]))
    message: Any = draw(_messages(version))
    if draw(_mostly(st.just(False), st.just(True), 40)):
        message = draw(_ANY | st.lists(_messages(version), max_size=2))
    headers = draw(_heads(message, version))
    body = _encode(message, ascii_only=draw(st.booleans()))
    if draw(_mostly(st.just(False), st.just(True), 40)):
        body = body[: draw(st.integers(0, len(body)))] + draw(st.binary(max_size=3))
    method = draw(_mostly(st.just("POST"), st.sampled_from(["GET", "DELETE", "PUT"]), 50))
    return Sent(body, headers, method)


@st.composite
def calls(draw: st.DrawFn) -> Sent:
    """Generate a valid call of a tool with arguments of any kind."""
    version = draw(st.sampled_from([HANDSHAKE, VERSION]))
    tool = draw(
        st.sampled_from(
            [*ARGUMENTS, *SHIPPED, "injected", "injected_in_a_thread", "reports", "calls_itself", "calls_another"]
        )
    )
    params = {"name": tool, "arguments": draw(_arguments_for(tool))}
    if version == VERSION:
        params["_meta"] = ENVELOPE
    proper = sent(request("tools/call", {**params, "arguments": {}}, draw(_IDS)), version)
    return Sent(_encode(request("tools/call", params, draw(_IDS)), ascii_only=draw(st.booleans())), proper.headers)
