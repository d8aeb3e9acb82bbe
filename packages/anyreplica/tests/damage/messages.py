"""JSON-RPC messages, valid and damaged."""

import json
from collections.abc import Sequence
from typing import Any

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from tests.calls import ENVELOPE, VERSION, request
from tests.damage.dice import Dice
from tests.damage.values import NAMES, Raw, Values, odd, plain, written

VERSIONS = (None, *HANDSHAKE_PROTOCOL_VERSIONS, VERSION)
"""Protocol versions; None stands for a request without a version."""
_ANSWERS = {"who": {"action": "accept", "content": {"name": "n"}}}
_CAPABILITIES = {"roots": {"listChanged": True}, "sampling": {}, "elicitation": {"form": {}}, "extensions": {"a/b": {}}}
_PROMPT = {"type": "ref/prompt", "name": "summarize"}

Call = tuple[str, dict[str, Any]]
"""A method and its params."""

CALLS: list[Call] = [
    ("tools/call", each)
    for each in (
        {"name": "echo", "arguments": {"message": "hello 👋", "repeat": 2}},
        {"name": "echo", "arguments": {"message": "x" * 2000, "repeat": 10}},
        {"name": "echo", "arguments": {"message": "x", "repeat": 11}},
        {"name": "add", "arguments": {"a": 1e308, "b": 2.5}},
        {"name": "server_info"},
        {"name": "no_such_tool"},
        {"name": "submit_job", "arguments": {"job": "no_such", "arguments": {"rows": 2}, "idempotency_key": "k"}},
        {"name": "job_status", "arguments": {"job_id": "x" * 32}},
    )
]
"""Calls of the tools that each sample server has, and of tools that it does not have."""
OTHERS: list[Call] = [
    ("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}),
    ("ping", {}),
    ("tools/list", {}),
    ("tools/list", {"cursor": "10"}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("prompts/list", {}),
    ("server/discover", {}),
    ("resources/read", {"uri": "template://about"}),
    ("resources/read", {"uri": "template://greeting/en/you"}),
    ("resources/read", {"uri": "template://greeting/xx/you"}),
    ("resources/read", {"uri": "template://nothing"}),
    ("prompts/get", {"name": "summarize", "arguments": {"text": "t", "sentences": "2"}}),
    ("prompts/get", {"name": "summarize"}),
    ("completion/complete", {"ref": _PROMPT, "argument": {"name": "text", "value": ""}}),
    ("logging/setLevel", {"level": "debug"}),
    ("resources/subscribe", {"uri": "template://about"}),
    ("tasks/get", {"taskId": "x" * 32}),
    ("tasks/cancel", {"taskId": "x" * 32}),
    ("no/such", {}),
    ("tools/call/", {"name": "echo"}),
    ("", {}),
]
"""Requests that get a reply at once."""
SUBSCRIPTION: Call = ("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
NOTIFICATIONS = ["notifications/initialized", "notifications/cancelled", "notifications/progress", "notifications/x"]
_IDS: list[Any] = [1, 0, -1, "id", 2**63, 10**40, "", "ä👋\u2028", '"', "\x00", "x" * 2000]

META: dict[str, list[Any]] = {
    "io.modelcontextprotocol/protocolVersion": [*VERSIONS, "2099-01-01"],
    "io.modelcontextprotocol/clientCapabilities": [_CAPABILITIES],
    "io.modelcontextprotocol/clientInfo": [{"name": "n", "version": "1", "title": "T", "x": 1}],
    "io.modelcontextprotocol/logLevel": ["debug", "info", "error", "loud"],
    "io.modelcontextprotocol/related-task": [{"taskId": "t"}],
    "progressToken": [0, 7, "token", "", 10**30],
    "fastmcp": [{}, {"version": "1.0"}, {"version": None}, {"version": 1}],
    "_fastmcp": [{"version": "2.0"}],
    "traceparent": ["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"],
    "tracestate": ["a=b"],
    "com.example/own": [1],
}
"""Members of `_meta`, with usual values."""
PARAMS: dict[str, list[Any]] = {
    "cursor": ["", "1", "x"],
    "inputResponses": [_ANSWERS],
    "requestState": ["made up"],
    "task": [{"ttl": 1}],
    "uri": ["template://about", "no-such://uri"],
    "name": ["summarize", "text", "no such", "ä", "=?base64?dGV4dA==?=", " text"],
    "level": ["debug", "loud"],
    "extra": [1],
    "protocolVersion": [*VERSIONS],
    "capabilities": [{}],
    "clientInfo": [{"name": "n", "version": "1"}],
}
"""Members of `params` that a method may have besides its usual ones, with usual values."""

_PUT_IN = [b"\x00", b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80", b"\r\n", b"\n", b"\r", b"\r\n\r\n", b" ", b"\t", b":"]
_PUT_IN += [b"%", b'"', b"\\", b",", b"9", b"-"]


def message(dice: Dice, version: str | None, calls: Sequence[Call], others: Sequence[Call] = OTHERS) -> Any:
    """Return a message of a protocol version (None: without one), usually valid; half are `calls` of tools."""
    kind = dice.below(16)
    if kind == 13:
        return {"jsonrpc": "2.0", "method": dice.one_of(NOTIFICATIONS), "params": {"requestId": 1}}
    if kind == 14:
        return {"jsonrpc": "2.0", "id": 1, **dice.one_of([{"result": {}}, {"error": {"code": 1}}])}
    if kind == 15:
        return plain(dice)
    method, usual = dice.one_of(calls if kind < 8 else others)
    params, meta = dict(usual), dict[str, Any](ENVELOPE) if version == VERSION else {}
    for members, more in ((meta, META), (params, PARAMS)):
        if dice.once_in(6):
            name = dice.one_of(sorted(more))
            members[name] = dice.one_of(more[name])
    return request(method, {**params, "_meta": meta} if meta else params, dice.one_of(_IDS))


def damaged(dice: Dice, value: Any, values: Values = odd) -> Any:
    """Return a value with some parts removed, renamed, doubled or replaced."""
    for _ in range(1 + dice.below(3)):
        value = _changed(dice, value, dice.one_of(_places(value)), values)
    return [value] * dice.one_of([0, 1, 2, 5]) if dice.once_in(16) else value


def encoded(dice: Dice, value: Any) -> bytes:
    """Return a value as JSON. A lone surrogate becomes an escape, or bytes that are not valid UTF-8."""
    return written(value, ascii_only=dice.once_in(2)).encode("utf-8", "surrogatepass")


def mangled(dice: Dice, data: bytes) -> bytes:
    """Return bytes that are cut, changed at one place, doubled, encoded as UTF-16, or replaced completely."""
    how = dice.one_of(["end", "begin", "put", "put", "put", "put", "twice", "utf-16", "other"])
    place = dice.below(len(data) + 1)
    if how == "end":
        return data[:place]
    if how == "begin":
        return data[place:]
    if how == "put":
        part = dice.bytes(6) if dice.once_in(2) else dice.one_of(_PUT_IN)
        return data[:place] + part + data[place + dice.below(10) :]
    if how == "twice":
        return data + data
    return data.decode("latin-1").encode("utf-16") if how == "utf-16" else dice.bytes() * dice.one_of([1, 1, 1000])


_Place = tuple[str | int, ...]


def _places(value: Any, at: _Place = ()) -> list[_Place]:
    """Return the paths of all parts of a value, innermost first, because Hypothesis prefers the first ones."""
    members: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found: list[_Place] = []
    for name, member in reversed(list(members)[:200]):
        found += _places(member, (*at, name))
    return [*found, at]


def _changed(dice: Dice, value: Any, place: _Place, values: Values) -> Any:
    """Return a copy of a value with another value at a path."""
    if not place:
        return values(dice)
    first, rest = place[0], place[1:]
    if isinstance(value, list):
        return [_changed(dice, each, rest, values) if number == first else each for number, each in enumerate(value)]
    if rest:
        return {name: _changed(dice, each, rest, values) if name == first else each for name, each in value.items()}
    how = dice.one_of(["odd", "odd", "odd", "null", "gone", "renamed", "beside", "doubled"])
    if how == "gone":
        return {name: member for name, member in value.items() if name != first}
    if how == "renamed":
        other = dice.one_of(NAMES)
        return {other if name == first else name: member for name, member in value.items()}
    other_value = None if how == "null" else values(dice)
    if how == "doubled" and values is odd:
        once, again = (written(each, ascii_only=True) for each in (value[first], other_value))
        return {**value, first: Raw(f"{once},{json.dumps(first)}:{again}")}
    return {**value, (dice.one_of(NAMES) if how == "beside" else first): other_value}
