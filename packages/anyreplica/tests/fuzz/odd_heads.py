"""Odd parts of request heads and of chunked bodies; some of them are valid."""

from tests.calls import VERSION

PAGES = [b"/", b"/healthz", b"/readyz", b"/version", b"/nowhere", b"/mcp/", b"//mcp", b"/health", b"/metrics"]
PAGES += [b"/.well-known/oauth-protected-resource", b"/.well-known/oauth-protected-resource/mcp"]

LINES: dict[str, list[bytes]] = {
    "method": [b"GET", b"PUT", b"DELETE", b"HEAD", b"OPTIONS", b"CONNECT", b"TRACE", b"PRI", b"post", b"", b"X" * 100],
    "target": [b"/mcp", b"/mcp?a=b", b"/mcp#f", b"*", b"", b"mcp", b"//", b"http://localhost/mcp", b"http://localhost"],
    "version": [b"HTTP/1.0", b"HTTP/1.2", b"HTTP/2.0", b"HTTP/0.9", b"HTTP/9.9", b"HTP/1.1", b"", b"HTTP/1.1 x"],
    "end": [b"\n", b"\r", b"\r\n ", b"\r\r\n", b"\x00\r\n", b" \r\n"],
}
"""Parts of the first line, and line ends."""
LINES["target"] += [b"/%2e%2e/mcp", b"/mcp%00", b"/%ff", b"/%", b"/\xc3\xa4", b"/a b", b"/" + b"a" * 70_000]
LINES["target"] += [b"http://[::1/x", b"localhost:1", b"http://localhost:99999/mcp", b"/mcp?" + b"a=b&" * 2_000]

NAMES = [b"Host", b"Accept", b"Content-Type", b"Content-Length", b"Transfer-Encoding", b"Connection", b"Expect"]
NAMES += [b"Upgrade", b"HTTP2-Settings", b"Authorization", b"Signature", b"Signature-Input", b"Content-Digest"]
NAMES += [b"X-Forwarded-For", b"X-Forwarded-Proto", b"X-Forwarded-Host", b"Forwarded", b"X-Request-ID", b"Origin"]
NAMES += [b"MCP-Protocol-Version", b"Mcp-Method", b"Mcp-Name", b"Mcp-Session-Id", b"Mcp-Param-Region"]
NAMES += [b"Idempotency-Key", b"Cookie", b"Range", b"Accept-Encoding", b"Content-Encoding", b"Last-Event-ID"]
NAMES += [b"traceparent", b"Sec-Fetch-Site", b"X", b"x y", b"X\x00", b"X ", b" X", b"", b"\xff", b"X" * 300, b":path"]

WORDS = [b"", b" ", b"0", b"-1", b"1", b"500", b"501", b"9" * 30, b"x" * 300, b"x" * 5_000, b"\xff\xfe", b"\xc3\xa4"]
WORDS += [b"a\x00b", b"a\tb", b"..", b"%00", b"%ff", b"%2e%2e%2f", b"*", b"a:b", b"a,b", b"__proto__", b"None", b"nan"]
WORDS += [b"application/json", b"text/event-stream", b"text/plain", b"application/json;q=0", b"close", b"keep-alive"]
WORDS += [b"upgrade", b"h2c", b"websocket", b"100-continue", b"chunked", b"localhost", b"evil.example", b"null"]
WORDS += [b"http://localhost", b"https://evil.example", b"127.0.0.1", b"1.2.3.4, 127.0.0.1", b"::1%eth0", b"1.2.3"]
WORDS += [
    VERSION.encode(),
    b"2025-11-25",
    b"2099-01-01",
    b"tools/call",
    b"echo",
    b"=?base64?w6Q=?=",
    b"=?base64?!?=",
    b"=?base64?\xe9?=",
]
WORDS += [b"[::1", b"http://[::1", b"localhost:x", b"http://localhost:99999", b"user@localhost", b"unknown", b"0x7f.1"]
"""Values of headers, ids and cursors."""

LENGTHS = [b"+%d", b"-%d", b"0x%x", b"%d,", b"%d.0", b" %d ", b"00%d", b"9%020d", b"%da", b"%d\x00", b"99%d"]
CODINGS = [b"gzip", b"chunked, chunked", b"gzip, chunked", b"chunked, gzip", b"identity", b"Chunked", b"xchunked", b""]
CHUNKS = [b"%x\r\n%b\r\n", b"%x\r\n%b\r\n", b"%X;a=b\r\n%b\r\n", b"%x\n%b\n", b"0x%x\r\n%b\r\n", b"%d\r\n%b\r\n"]
CHUNKS += [b"%x\r\n%b", b"f%x\r\n%b\r\n"]
TRAILERS = [b"0\r\n\r\n", b"0\r\n\r\n", b"", b"0\r\nX: 1\r\n\r\n", b"0\r\nAuthorization: Bearer x\r\n\r\n", b"0\r\n"]
TRAILERS += [b"00000\r\n\r\n", b"-1\r\n\r\n", b"ffffffffffffffff\r\n\r\n", b"0\r\n" + b"X: y\r\n" * 20_000 + b"\r\n"]
