"""JSON-RPC messages and job submissions, valid and damaged."""

import json
from typing import Any

from tests.calls import ENVELOPE, VERSION, request
from tests.fuzz.dice import Dice
from tests.fuzz.values import NAMES, ODD, Raw, written
from tests.mcp.paths.tools import VALID
from tests.mcp.test_endpoint import ALMOST, JSON

SUBMISSION = {"job": "counted", "params": {"rows": 3, "form": "long"}}

_HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
_META = {"progressToken": 7, "io.modelcontextprotocol/logLevel": "debug", "fastmcp": {"version": "1.0"}}
_ANSWERS = {"sure": {"action": "accept", "content": {"sure": True}}}
_REFERENCE = {"ref": {"type": "ref/prompt", "name": "summarize"}, "argument": {"name": "text", "value": ""}}
_KEYED = {"job": "counted", "arguments": {"rows": 2}, "idempotency_key": "k"}

_SERVED = sorted(VALID.keys() - {"calls_another", "counts", "counts_in_a_thread", "counts_against_its_schema"})
_CALLS: list[dict[str, Any]] = [{"name": name, "arguments": VALID[name]} for name in _SERVED]
_CALLS += [
    {"name": "server_info"},
    {"name": "no_such_tool"},
    {"name": "remember", "arguments": {"value": "v"}},
    {"name": "touch", "arguments": {"uri": "template://about"}},
    {"name": "transfer", "arguments": {"amount": 3}},
    {"name": "transfer", "arguments": {"amount": 3}, "inputResponses": _ANSWERS, "requestState": "made up"},
    {"name": "counted", "arguments": {"rows": 3}},
    {"name": "submit_job", "arguments": _KEYED},
    {"name": "job_status", "arguments": {"job_id": "x" * 32}},
]
OTHERS: list[tuple[str, dict[str, Any]]] = [
    ("initialize", _HELLO),
    ("ping", {}),
    ("tools/list", {}),
    ("tools/list", {"cursor": "10"}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("prompts/list", {}),
    ("server/discover", {}),
    ("resources/read", {"uri": "template://about"}),
    ("resources/read", {"uri": "template://greeting/en/you"}),
    ("prompts/get", {"name": "summarize", "arguments": {"text": "t", "sentences": "2"}}),
    ("completion/complete", _REFERENCE),
    ("logging/setLevel", {"level": "debug"}),
    ("resources/subscribe", {"uri": "template://about"}),
    ("subscriptions/listen", {"notifications": {"toolsListChanged": True}}),
    ("tasks/get", {"taskId": "x" * 32}),
    ("tasks/cancel", {"taskId": "x" * 32}),
    ("no/such", {}),
]
NOTIFICATIONS = ["notifications/initialized", "notifications/cancelled", "notifications/progress", "notifications/x"]

_PUT_IN = [b"\x00", b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80", b"\r\n", b"\n", b"\r", b"\r\n\r\n", b" ", b"\t", b":"]
_PUT_IN += [b"%", b'"', b"\\", b",", b"9", b"-"]


def message(dice: Dice, version: str | None) -> Any:
    """Return a message, usually a valid one, of a protocol version. None stands for a request without a version."""
    kind = dice.below(16)
    if kind == 13:
        return {"jsonrpc": "2.0", "method": dice.one_of(NOTIFICATIONS), "params": {"requestId": 1}}
    if kind == 14:
        return {"jsonrpc": "2.0", "id": 1, "result": {}}
    if kind == 15:
        return dice.draw(ALMOST) if dice.once_in(2) else dice.draw(JSON)
    method, params = ("tools/call", dice.one_of(_CALLS)) if kind < 8 else dice.one_of(OTHERS)
    meta: dict[str, Any] = dict(ENVELOPE) if version == VERSION else {}
    if dice.once_in(4):
        name = dice.one_of(sorted(_META))
        meta |= {name: _META[name]}
    return request(method, {**params, "_meta": meta} if meta else params, dice.one_of([1, 0, "id", 2**63]))


def damaged(dice: Dice, value: Any) -> Any:
    """Return a value with some parts removed, renamed, doubled or replaced."""
    for _ in range(1 + dice.below(3)):
        value = _changed(dice, value, dice.one_of(_places(value)))
    return [value] * dice.one_of([0, 1, 2, 5]) if dice.once_in(16) else value


def encoded(dice: Dice, value: Any) -> bytes:
    """Return a value's bytes; in one case of eight they are damaged."""
    body = written(value, ascii_only=dice.once_in(2)).encode("utf-8", "surrogatepass")
    return mangled(dice, body) if dice.once_in(8) else body


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
    return data.decode("latin-1").encode("utf-16") if how == "utf-16" else dice.bytes()


_Place = tuple[str | int, ...]


def _places(value: Any, at: _Place = ()) -> list[_Place]:
    """Return the paths of all parts of a value.

    The last and innermost parts come first, because hypothesis prefers the first ones.
    """
    members: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found: list[_Place] = []
    for name, member in reversed(list(members)[:200]):
        found += _places(member, (*at, name))
    return [*found, at]


def _changed(dice: Dice, value: Any, place: _Place) -> Any:
    """Return a copy of a value with another value at a path."""
    if not place:
        return dice.draw(ODD)
    first, rest = place[0], place[1:]
    if isinstance(value, list):
        return [_changed(dice, each, rest) if number == first else each for number, each in enumerate(value)]
    if rest:
        return {name: _changed(dice, member, rest) if name == first else member for name, member in value.items()}
    how = dice.one_of(["odd", "odd", "odd", "gone", "renamed", "beside", "doubled"])
    if how == "gone":
        return {name: member for name, member in value.items() if name != first}
    if how == "renamed":
        other = dice.one_of(NAMES)
        return {other if name == first else name: member for name, member in value.items()}
    odd = dice.draw(ODD)
    if how == "doubled":
        once, again = (written(each, ascii_only=True) for each in (value[first], odd))
        return {**value, first: Raw(f"{once},{json.dumps(first)}:{again}")}
    return {**value, (dice.one_of(NAMES) if how == "beside" else first): odd}
