"""Odd parts of request heads and of chunked bodies; some of them are valid."""

from base64 import b64encode

from mcp.shared.inbound import encode_header_value

from tests.calls import VERSION
from tests.damage.wire import Headers

PAGES = [b"/", b"/healthz", b"/readyz", b"/version", b"/nowhere", b"/mcp/", b"//mcp", b"/health", b"/metrics"]
PAGES += [b"/.well-known/oauth-protected-resource", b"/.well-known/oauth-protected-resource/mcp"]

LINES: dict[str, list[bytes]] = {
    "method": [b"GET", b"PUT", b"DELETE", b"HEAD", b"OPTIONS", b"CONNECT", b"TRACE", b"PRI", b"post", b"", b"X" * 100],
    "target": [b"/mcp", b"/mcp?a=b", b"/mcp#f", b"*", b"", b"mcp", b"//", b"http://localhost/mcp", b"http://localhost"],
    "version": [b"HTTP/1.0", b"HTTP/1.2", b"HTTP/2.0", b"HTTP/0.9", b"HTTP/9.9", b"HTP/1.1", b"", b"HTTP/1.1 x"],
    "end": [b"\n", b"\r", b"\r\n ", b"\r\r\n", b"\x00\r\n", b" \r\n"],
}
"""Parts of the first line, and line ends."""
LINES["method"] += [b"PATCH", b"BREW"]
LINES["target"] += [b"/%2e%2e/mcp", b"/mcp%00", b"/%ff", b"/%", b"/\xc3\xa4", b"/a b", b"/" + b"a" * 70_000]
LINES["target"] += [b"http://[::1/x", b"localhost:1", b"http://localhost:99999/mcp", b"/mcp?" + b"a=b&" * 2_000]
LINES["target"] += [b"http:///healthz", b"/../../etc/passwd", b"/%00%ff%2e%2e/%zz", b"/jobs/%2f%2f"]
LINES["version"] += [b"HTTP/11"]

WHOLE = [
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"CONNECT localhost:443 HTTP/1.1\r\nHost: a\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /\r\n\r\n",
    b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nx: y\r\n folded\r\n\r\n",
    b"\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200,
    b"GET / HTTP/1.1\r\nHost: a\r\n" + b"y" * 1_000_000 + b": x\r\n\r\n",
]
"""Whole heads that hardly any client sends, and the beginning of a TLS connection."""

NAMES = [b"Host", b"Accept", b"Content-Type", b"Content-Length", b"Transfer-Encoding", b"Connection", b"Expect"]
NAMES += [b"Upgrade", b"HTTP2-Settings", b"Authorization", b"Signature", b"Signature-Input", b"Content-Digest"]
NAMES += [b"X-Forwarded-For", b"X-Forwarded-Proto", b"X-Forwarded-Host", b"Forwarded", b"X-Request-ID", b"Origin"]
NAMES += [b"MCP-Protocol-Version", b"Mcp-Method", b"Mcp-Name", b"Mcp-Session-Id", b"Mcp-Param-Region", b"User-Agent"]
NAMES += [b"Idempotency-Key", b"Cookie", b"Range", b"Accept-Encoding", b"Content-Encoding", b"Last-Event-ID"]
NAMES += [b"traceparent", b"Sec-Fetch-Site", b"X", b"x y", b"X\x00", b"X ", b" X", b"", b"\xff", b"X" * 300, b":path"]

WORDS = [b"", b" ", b"0", b"-1", b"1", b"500", b"501", b"9" * 30, b"x" * 300, b"x" * 5_000, b"\xff\xfe", b"\xc3\xa4"]
WORDS += [b"a\x00b", b"a\tb", b"..", b"%00", b"%ff", b"%2e%2e%2f", b"*", b"a:b", b"a,b", b"__proto__", b"None", b"nan"]
WORDS += [b"application/json", b"text/event-stream", b"text/plain", b"application/json;q=0", b"close", b"keep-alive"]
WORDS += [b"application/json; charset=utf-16", b"application/*;q=0.1, text/*", b";" * 1_000, b"," * 5_000, b"text/html"]
WORDS += [b"upgrade", b"h2c", b"websocket", b"100-continue", b"chunked", b"localhost", b"evil.example", b"null"]
WORDS += [b"http://localhost", b"https://evil.example", b"127.0.0.1", b"1.2.3.4, 127.0.0.1", b"::1%eth0", b"1.2.3"]
WORDS += [b"1.2.3.4, " * 500, b"gzip;q=0, *;q=" + b"9" * 500, b"keep-alive, upgrade, close", b"Bearer " + b"a." * 2_000]
WORDS += [VERSION.encode(), b"2025-11-25", b"2099-01-01", b"tools/call", b"echo", b"north", b"=?base64?w6Q=?="]
WORDS += [b"=?base64?!?=", b"=?base64?\xe9?=", b"00-" + b"f" * 32 + b"-" + b"f" * 16 + b"-ff"]
WORDS += [b"[::1", b"http://[::1", b"localhost:x", b"http://localhost:99999", b"user@localhost", b"gzip", b"0x7f.1"]
"""Values of headers, ids and cursors."""

FORMS = ["absent", "other", "twice", "twice otherwise", "padded", "encoded", "upper", "empty", "latin"]
"""Forms in which a header may arrive."""


def in_form(value: str, form: str) -> list[bytes]:
    """Return the values of a header in a given form. An unknown form gives the correct value."""
    right = encode_header_value(value).encode()
    forms = {
        "absent": [],
        "other": [b"other"],
        "twice": [right, right],
        "twice otherwise": [right, b"other"],
        "padded": [b" \t" + right + b"\t "],
        "encoded": [b"=?base64?" + b64encode(value.encode("utf-8", "replace")) + b"?="],
        "upper": [right.upper()],
        "empty": [b""],
        "latin": [value.encode("utf-8", "replace")],
    }
    return forms.get(form, [right])


_CODING, _LENGTH = b"Transfer-Encoding", b"Content-Length"
AMBIGUOUS: list[Headers] = [
    ((_LENGTH, b"5"), (_CODING, b"chunked")),
    ((_CODING, b"chunked"), (_LENGTH, b"5")),
    ((_LENGTH, b"5"), (_LENGTH, b"6")),
    ((_LENGTH, b"5"), (_LENGTH, b"5")),
    ((_LENGTH, b"5, 6"),),
    ((_LENGTH, b"+5"),),
    ((_LENGTH, b"0x5"),),
    ((_LENGTH, b"-1"),),
    ((_LENGTH + b" ", b"5"),),
    ((_LENGTH, b"99999999999999999999999"),),
    ((_CODING, b"chunked, identity"),),
    ((_CODING, b"xchunked"),),
    ((_CODING + b":\x0bchunked\r\nX", b"y"),),
    ((_CODING, b"chunked"), (_CODING, b"x")),
    ((b" " + _CODING, b"chunked"),),
    ((_CODING + b" ", b"chunked"),),
    ((b"X", b"y\x00z"),),
    ((b"X", b"y\rContent-Length: 5"),),
]
"""Headers that make the end of a request ambiguous."""

LENGTHS = [b"+#", b"-#", b"0x#", b"#,", b"#.0", b" # ", b"00#", b"90000000000000000000#", b"#a", b"#\x00", b"99#", b""]
LENGTHS += [b"18446744073709551616", b"9223372036854775807", b"4194305", b"1e3", b"#, #"]
"""Values of `Content-Length`; `#` stands for the right length."""
CODINGS = [b"gzip", b"chunked, chunked", b"gzip, chunked", b"chunked, gzip", b"identity", b"Chunked", b"xchunked", b""]
CHUNKS = [b"%x\r\n%b\r\n", b"%x\r\n%b\r\n", b"%X;a=b\r\n%b\r\n", b"%x\n%b\n", b"0x%x\r\n%b\r\n", b"%d\r\n%b\r\n"]
CHUNKS += [b"%x\r\n%b", b"f%x\r\n%b\r\n"]
TRAILERS = [b"0\r\n\r\n", b"0\r\n\r\n", b"", b"0\r\nX: 1\r\n\r\n", b"0\r\nAuthorization: Bearer x\r\n\r\n", b"0\r\n"]
TRAILERS += [b"00000\r\n\r\n", b"-1\r\n\r\n", b"ffffffffffffffff\r\n\r\n", b"0\r\n" + b"X: y\r\n" * 20_000 + b"\r\n"]
TRAILERS += [b"zz\r\n\r\n", b"7fffffffffffffff\r\n", b"\r\n\r\n", b"400000\r\n", b"0\r\nno trailer\r\n\r\n"]
TRAILERS += [b"3;" + b"x" * 100_000 + b"\r\nabc\r\n0\r\n\r\n", b"0\r\n" + b"x" * 100_000, b"0" * 1_000 + b"1\r\n \r\n"]
TRAILERS += [b"1\r\n \r\n" * 40_000 + b"0\r\n\r\n"]
"""Ends of a chunked body."""
