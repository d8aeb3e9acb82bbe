"""Requests that are invalid HTTP, ask for something that does not exist, or send their body in an odd way."""

from random import Random

from tests.attacks.messages import ordinary
from tests.attacks.wire import echo, http, post

_BODY = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"message":"odd"}}}'
_JSON = b"Content-Type: application/json\r\n"
_START = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n" + _JSON
_CHUNKED = _START + b"Transfer-Encoding: chunked\r\n\r\n"


def odd(dice: Random) -> bytes:
    """Return a random request of one of the kinds in this module."""
    return dice.choice(_KINDS)(dice)


def head(dice: Random) -> bytes:
    """Return a request head that hardly any client sends."""
    return dice.choice(_HEADS) + b"\r\n"


def _length(dice: Random) -> bytes:
    """Return a request with an invalid or wrong Content-Length."""
    return _START + b"".join(b"Content-Length: %b\r\n" % said for said in dice.choice(_LENGTHS)) + b"\r\n" + _BODY


def _chunks(dice: Random) -> bytes:
    """Return a request with invalid chunks or with very many chunks."""
    chosen = dice.randrange(4)
    if chosen == 0:
        size = dice.choice([1, 2, 7])
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in (_BODY[i : i + size] for i in range(0, 99, size)))
        rest = _BODY[-(-99 // size) * size :]
        return _CHUNKED + chunks + b"%x\r\n%b\r\n0\r\n\r\n" % (len(rest), rest)
    if chosen == 1:
        return _CHUNKED + b"1\r\n \r\n" * dice.randrange(10, 40_000) + b"0\r\n\r\n"
    return _CHUNKED + b"3\r\n{  \r\n" + dice.choice(_BROKEN_CHUNKS)


def _framing(dice: Random) -> bytes:
    """Return a request with contradictory or invalid headers about the framing or encoding of its body."""
    lines = dice.choice(
        [
            b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
            b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            b"Transfer-Encoding: gzip\r\n",
            b"Transfer-Encoding: chunked, identity\r\n",
            b"Transfer-Encoding: xchunked\r\n",
            b"Transfer-Encoding : chunked\r\n",
            b"Transfer-Encoding:\x0bchunked\r\n",
            b"Content-Encoding: gzip\r\nContent-Length: 101\r\n",
        ]
    )
    return _START + lines + b"\r\n" + dice.choice([_BODY, b"0\r\n\r\n", b"5\r\nabcde\r\n0\r\n\r\n"])


def _many_headers(dice: Random) -> bytes:
    number = dice.choice([90, 99, 101, 1000, 3000])
    return b"GET / HTTP/1.1\r\nHost: a\r\n" + b"".join(b"x%d: y\r\n" % each for each in range(number)) + b"\r\n"


def _huge_head(dice: Random) -> bytes:
    size = dice.choice([10_000, 60_000, 65_536, 70_000, 200_000, 1_000_000])
    chosen = dice.randrange(3)
    if chosen == 0:
        return b"GET /" + b"a" * size + b" HTTP/1.1\r\nHost: a\r\n\r\n"
    if chosen == 1:
        return b"GET / HTTP/1.1\r\nHost: a\r\nx: " + b"y" * size + b"\r\n\r\n"
    return b"GET / HTTP/1.1\r\nHost: a\r\n" + b"y" * size + b": x\r\n\r\n"


def _other_media(dice: Random) -> bytes:
    """Return a call with unusual headers, for example another media type, host or origin."""
    said = dice.choice(
        [
            {"Content-Type": "text/plain"},
            {"Content-Type": "application/json; charset=utf-16"},
            {"Content-Type": ";" * 1000},
            {"Accept": "text/html"},
            {"Accept": "," * 5000},
            {"Accept": ""},
            {"Host": "evil.example"},
            {"Host": "localhost:99999999999"},
            {"Host": "[::1"},
            {"Host": ""},
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {"Accept-Encoding": "gzip;q=0, *;q=" + "9" * 500},
            {"X-Request-ID": "a b"},
            {"Mcp-Session-Id": "made-up"},
            {"MCP-Protocol-Version": "\xff"},
            {"Authorization": "Bearer " + "a." * 2000},
            {"Traceparent": "00-" + "f" * 32 + "-" + "f" * 16 + "-ff"},
            {"X-Forwarded-For": "1.2.3.4, " * 500},
            {"Connection": "close"},
            {"Connection": "keep-alive, upgrade, close"},
        ]
    )
    return post(_BODY, **said)


def _upgrade(dice: Random) -> bytes:
    """Return a request to switch to another protocol."""
    asked = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": dice.choice(["h2c", "websocket", "x" * 500])}
    if dice.random() < 0.5:
        return http("GET", dice.choice(["/mcp", "/"]), HTTP2_Settings="AAMAAABkAARAAAAAAAIAAAAA", **asked)
    return post(_BODY, **asked) + ordinary(dice)


def _expect(dice: Random) -> bytes:
    """Return a request with an `Expect` header; in some cases its body never comes."""
    said = dice.choice(["100-continue", "100-CONTINUE", "200-ok"])
    request = post(_BODY, Expect=said)
    return request[: -len(_BODY)] if dice.random() < 0.5 else request


def _garbage(dice: Random) -> bytes:
    return dice.randbytes(dice.choice([1, 10, 1000, 100_000]))


def _damaged(dice: Random) -> bytes:
    """Return an ordinary request in which some bytes are replaced."""
    data = bytearray(ordinary(dice))
    for _ in range(dice.randint(1, 5)):
        data[dice.randrange(len(data))] = dice.randrange(256)
    return bytes(data)


def _invalid_json(dice: Random) -> bytes:
    body = dice.choice([_BODY[: dice.randrange(len(_BODY))], b"[" + _BODY + b"]", b"NaN", b"nul", b'"', b"[" * 9999])
    return post(body)


def _half(dice: Random) -> bytes:
    data = echo("half" * 50)
    return data[: dice.randrange(1, len(data))]


_KINDS = [
    head,
    head,
    _length,
    _chunks,
    _framing,
    _many_headers,
    _huge_head,
    _other_media,
    _upgrade,
    _expect,
    _garbage,
    _damaged,
    _invalid_json,
    _half,
]

_LENGTHS: list[list[bytes]] = [
    [b"+101"],
    [b"-1"],
    [b"1e3"],
    [b"0x10"],
    [b"9" * 30],
    [b"18446744073709551616"],
    [b"9223372036854775807"],
    [b"4194305"],
    [b"101, 101"],
    [b"101", b"5"],
    [b"101", b"101"],
    [b""],
    [b"5"],
    [b"0"],
    [b"4000000"],
    [],
]

_BROKEN_CHUNKS = [
    b"zz\r\n\r\n",
    b"-1\r\n\r\n",
    b"ffffffffffffffffff\r\n",
    b"7fffffffffffffff\r\n",
    b"ffffffff\r\n",
    b"\r\n\r\n",
    b"3\r\nabcdef\r\n",
    b"3;" + b"x" * 100_000 + b"\r\nabc\r\n0\r\n\r\n",
    b"0\r\n" + b"Trailer: x\r\n" * 5000 + b"\r\n",
    b"0\r\n" + b"x" * 100_000 + b"\r\n\r\n",
    b"0" * 1000 + b"1\r\n \r\n0\r\n\r\n",
    b"0\r\nno trailer\r\n\r\n",
    b"400000\r\n",
]

_HEADS = [
    b"GET /healthz HTTP/1.1\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: a\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n",
    b"GET /healthz HTTP/1.0\r\n",
    b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n",
    b"POST /mcp HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
    b"GET / HTTP/2.0\r\nHost: a\r\n",
    b"GET / HTTP/1.2\r\nHost: a\r\n",
    b"GET / HTTP/9.9\r\nHost: a\r\n",
    b"GET / HTTP/11\r\nHost: a\r\n",
    b"GET /\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n",
    b"TRACE / HTTP/1.1\r\nHost: a\r\n",
    b"CONNECT localhost:443 HTTP/1.1\r\nHost: a\r\n",
    b"CONNECT /mcp HTTP/1.1\r\nHost: a\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: a\r\n",
    b"HEAD / HTTP/1.1\r\nHost: a\r\n",
    b"HEAD /mcp HTTP/1.1\r\nHost: localhost\r\n",
    b"DELETE /mcp HTTP/1.1\r\nHost: localhost\r\n",
    b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n",
    b"PUT /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n",
    b"get / HTTP/1.1\r\nHost: a\r\n",
    b"BREW /pot HTTP/1.1\r\nHost: a\r\n",
    b"GET http://localhost/healthz HTTP/1.1\r\nHost: localhost\r\n",
    b"GET http://[::1/ HTTP/1.1\r\nHost: localhost\r\n",
    b"GET http:///healthz HTTP/1.1\r\nHost: localhost\r\n",
    b"GET //mcp HTTP/1.1\r\nHost: localhost\r\n",
    b"GET /../../etc/passwd HTTP/1.1\r\nHost: a\r\n",
    b"GET /%00%ff%2e%2e/%zz HTTP/1.1\r\nHost: a\r\n",
    b"GET /jobs/%ff HTTP/1.1\r\nHost: localhost\r\n",
    b"GET /jobs/%2f%2f HTTP/1.1\r\nHost: localhost\r\n",
    b"GET /jobs?cursor=%ff%00&limit=1 HTTP/1.1\r\nHost: localhost\r\n",
    b"GET /jobs?cursor=99999999999999999999 HTTP/1.1\r\nHost: localhost\r\n",
    "GET /ä HTTP/1.1\r\nHost: a\r\n".encode(),
    b"GET /?" + b"a=1&" * 9000 + b" HTTP/1.1\r\nHost: a\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nx: y\r\n folded\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nx: \x00\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nx : y\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\n: y\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nx: a\rb\r\n",
    b"GET / HTTP/1.1\nHost: a\n",
    b"\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200,
]
