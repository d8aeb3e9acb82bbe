"""Requests whose bodies have a large value."""

from random import Random

from tests.calls import HEADERS
from tests.damage.wire import http, post


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
