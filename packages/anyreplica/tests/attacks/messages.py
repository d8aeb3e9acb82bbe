"""Random requests as a client sends them, and requests with large or odd bodies."""

import json
from random import Random
from typing import Any

from tests.attacks.wire import http, post, stateless
from tests.calls import BOTH, HEADERS, request
from tests.fuzz.bodies import NOTIFICATIONS, OTHERS

_METHODS = [
    *(other for other in OTHERS if other[0] != "subscriptions/listen"),
    ("resources/read", {"uri": "template://greeting/xx/you"}),
    ("resources/read", {"uri": "template://nothing"}),
    ("prompts/get", {"name": "summarize"}),
    ("tools/call", {"name": "server_info"}),
    ("tools/call", {"name": "job_status", "arguments": {"job_id": "x" * 32}}),
]
_VERSIONS = ["2025-11-25", "2025-06-18", "2025-03-26", "", "2024-11-05", "1999-01-01"]
_LETTERS = 'abcdefghijklmnopqrstuvwxyz_/:.- äß漢👋"\\\n\x7f'


def word(dice: Random, most: int = 30) -> str:
    """Return a random name."""
    return "".join(dice.choices(_LETTERS, k=dice.randint(1, most)))


def ordinary(dice: Random) -> bytes:
    """Return a random request that gets its reply soon."""
    chosen = dice.randrange(20)
    if chosen == 0:
        return http(
            "GET", dice.choice(["/", "/version", "/healthz", "/readyz", "/metrics", "/health/deep", "/nothing"])
        )
    if chosen == 1:
        return _of_jobs(dice)
    if chosen == 2:
        return post({"jsonrpc": "2.0", "method": dice.choice([*NOTIFICATIONS, word(dice)]), "params": {}})
    if chosen == 3:
        return post(
            {"jsonrpc": "2.0", "id": dice.randrange(9), **dice.choice([{"result": {}}, {"error": {"code": 1}}])}
        )
    method, params = _asked(dice, chosen)
    number = dice.choice([dice.randrange(2**53), -1, 2**70, word(dice), "", "x" * dice.choice([1000, 2000])])
    if dice.random() < 0.4:
        return stateless(method, params, number, Accept=dice.choice([BOTH, "application/json"]))
    version = dice.choice(_VERSIONS)
    headers = {"MCP-Protocol-Version": version} if version else {}
    return post(request(method, params, number), **headers, Accept=dice.choice([BOTH, "*/*", "application/json"]))


def _asked(dice: Random, chosen: int) -> tuple[str, dict[str, Any]]:
    if chosen < 8:
        arguments: dict[str, Any] = {"message": word(dice, 2000), "repeat": dice.choice([1, 1, 1, 10, 11, "2", None])}
        return "tools/call", {"name": "echo", "arguments": arguments}
    if chosen < 10:
        return "tools/call", {"name": word(dice), "arguments": {word(dice): word(dice)}}
    if chosen == 10:
        return "tools/call", {"name": "add", "arguments": {"a": dice.choice([1, 1e308, "x", [], "1" * 5000]), "b": 2}}
    if chosen == 11:
        return word(dice, 200), {word(dice): word(dice)}
    method, params = dice.choice(_METHODS)
    return method, {**params, "_meta": {"progressToken": word(dice)}} if dice.random() < 0.2 else params


def _of_jobs(dice: Random) -> bytes:
    identity = dice.choice(["x" * 32, "0", "%00", word(dice).encode().hex()])
    asked = dice.choice(["?limit=2", "?limit=x", "?cursor=x", f"/{identity}", f"/{identity}/result", "/a/b/c", "*"])
    if asked != "*":
        return http(dice.choice(["GET", "GET", "DELETE"]), f"/jobs{asked}")
    wanted = {"job": dice.choice(["generate_report", "generate_report", "export_data", word(dice)])}
    params = {"rows": dice.choice([1, 20, 0, -1, "1", 10**9])}
    headers = {"Idempotency_Key": word(dice).encode().hex()} if dice.random() < 0.5 else {}
    return http("POST", "/jobs", json.dumps({**wanted, "params": params}).encode(), **HEADERS, **headers)


def large(dice: Random, most: int) -> bytes:
    """Return a request with a large random value, of at most `most` bytes, in a random place of its body."""
    place = dice.choice(_PLACES)
    # With `repeat`, the reply contains the value ten times. A reply of 40 MB would take the replica a third of a
    # second.
    size = int(4000 * 1.01 ** dice.randrange(700)) // (5 if b"repeat" in place else 1)
    value = _value(dice, min(most, size))
    body = place.replace(b"$", value)
    if dice.random() < 0.1:
        return http("POST", "/jobs", b'{"job":"export_data","params":{"rows":1,"a":%b}}' % value, **HEADERS)
    headers = {"Accept_Encoding": "gzip"} if dice.random() < 0.3 else {}
    return post(body, **headers)


_CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":'
_PLACES = [
    _CALL + b'{"message":$}}}',
    _CALL + b'{"message":$,"repeat":10}}}',
    _CALL + b'{"message":"a","other":$}}}',
    _CALL + b"$}}",
    _CALL + b'{"message":"a"},"_meta":$}}',
    _CALL + b'{"message":"a"}},"other":$}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":$}}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nothing","arguments":$}}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"generate_report","arguments":$}}',
    b'{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"summarize","arguments":{"text":$}}}',
    b'{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":$}}',
    b'{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"template://about","more":$}}',
    b'{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":$,"argument":{"name":"a","value":$}}}',
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":$}',
    b'{"jsonrpc":"2.0","id":1,"method":$}',
    b'{"jsonrpc":"2.0","id":$,"method":"tools/list"}',
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":$}',
    b'{"jsonrpc":"2.0","id":1,"result":$}',
    b"$",
    b"[$]",
]


def _value(dice: Random, size: int) -> bytes:
    """Return JSON of about `size` bytes; in some cases the JSON is invalid."""
    filled = _FILLINGS[dice.randrange(len(_FILLINGS))]
    if filled is None:
        return b"{%b}" % b",".join(b'"k%d":%d' % (number, number) for number in range(min(size // 14, 150_000)))
    begin, part, end = filled
    return begin + part * max(1, size // max(1, len(part) + len(end))) + end


_Filling = tuple[bytes, bytes, bytes]
_FILLINGS: list[_Filling | None] = [
    None,
    None,
    (b'"', b"x", b'"'),
    (b'"', b"x", b""),
    (b'"', "漢".encode(), b'"'),
    (b'"', b"\\u0000", b'"'),
    (b'"', b"\\ud800", b'"'),
    (b'"', b"\\ud83d\\udc4b", b'"'),
    (b'"', b'\\\\\\"', b'"'),
    (b'"', b"[{:,", b'"'),
    (b'"', b"\xff\xfe", b'"'),
    (b'"', b"\x00", b'"'),
    (b"[", b"[],", b"0]"),
    (b"[", b"{},", b"0]"),
    (b"[", b"1,", b"1]"),
    (b"[", b"1.5e300,", b"1]"),
    (b"[", b'"a",', b'"a"]'),
    (b"[", b'{"a":[1,{"b":null}]},', b"0]"),
    (b"[", b"0,", b""),
    (b"{", b'"a":1,', b'"a":1}'),
    (b"{", b'"a":{"a":1},', b'"b":1}'),
    (b"", b"[", b""),
    (b"", b'{"a":', b""),
    (b"[" * 150, b"1,", b"1" + b"]" * 150),
    (b"", b"9", b""),
    (b"-0.", b"0", b"1"),
    (b"1e", b"9", b""),
    (b"", b" ", b"1"),
]
"""Beginning, repeated part, and end of a value; None stands for an object with many keys."""
