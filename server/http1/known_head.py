"""A head that comes again on its connection, which needs no parsing then.

A client's requests differ in their bodies, and thus in Content-Length, and often in nothing else of their heads; or
in a few values, like a tool's name or a trace's id. Parsing one, header by header, takes a sixth of the time of a call.
"""

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from uvicorn._types import HTTPScope

Headers = list[tuple[bytes, bytes]]

_LONGEST = 4096
"""Bytes of a head that is worth remembering."""

_END = b"\r\n\r\n"
_DIGITS = 8
"""Of a length that is read here; a body that is longer never comes in one piece anyway."""

_FRAMING = frozenset({b"connection", b"expect", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"})
"""Headers by which the parser, or uvicorn, does more than note them."""

_plain = re.compile(rb"[!-~](?:[ -~]*[!-~])?").fullmatch
"""Whether a header's value is what any parser makes of it: visible ASCII, with no space around."""


class KnownHead:
    """What the parser made of a head, and the lines that it came in.

    Args:
        head: from its first byte to the empty line's end.
        scope: what the parser made of it.
        index: of Content-Length among the headers, which are one in each of the other lines.
        most: bytes of such a head.
    """

    __slots__ = ("_after", "_before", "_headers", "_index", "_lines", "_most", "_scope")

    def __init__(self, head: bytes, scope: "HTTPScope", index: int, most: int) -> None:
        self._scope = {key: value for key, value in scope.items() if key not in ("headers", "state")}
        self._headers: Headers = list(scope["headers"])
        self._index = index
        self._lines = head.removesuffix(_END).split(b"\r\n")
        self._most = most
        start = len(b"\r\n".join(self._lines[: index + 1])) + len(b"\r\ncontent-length: ")
        self._before, self._after = head[:start], head[start + len(self._headers[index][1]) :]

    def read(self, data: bytes) -> tuple[Headers, bytes] | None:
        """The headers and the body of a request like this one, where `data` is one as a whole; else None."""
        start = len(self._before)
        end = data.find(b"\r", start, start + _DIGITS + 1)
        if end < 0 or not data.startswith(self._before) or not data.startswith(self._after, end):
            return self._read_lines(data)
        headers = self._headers.copy()
        headers[self._index] = (b"content-length", data[start:end])
        return self._with_body(headers, data[end + len(self._after) :])

    def scope(self, headers: Headers) -> dict[str, Any]:
        """A new request's scope, but for its state."""
        return {**self._scope, "headers": headers}

    def _read_lines(self, data: bytes) -> tuple[Headers, bytes] | None:
        """As `read`, where more than the length may differ."""
        end = data.find(_END, 0, self._most)
        if end < 0:
            return None
        lines = data[:end].split(b"\r\n")
        if len(lines) != len(self._lines) or lines[0] != self._lines[0]:
            return None
        headers = self._headers.copy()
        for place, (line, known) in enumerate(zip(lines, self._lines, strict=True)):
            if line != known:
                lower = headers[place - 1][0]
                size = len(lower) + len(b": ")
                value = line[size:]
                if line[:size] != known[:size] or lower in _FRAMING or not _plain(value):
                    return None
                headers[place - 1] = (lower, value)
        return self._with_body(headers, data[end + len(_END) :])

    def _with_body(self, headers: Headers, body: bytes) -> tuple[Headers, bytes] | None:
        length = headers[self._index][1]
        if not length.isdigit() or len(length) > _DIGITS or int(length) != len(body):
            return None
        return headers, body


def learn(data: bytes, scope: "HTTPScope", body: bytes | bytearray, most: int) -> KnownHead | None:
    """Remember the head of a request, if it is one whose parts are sure.

    Args:
        data: what the parser was given when nothing was left from before.
        scope: what it made of it, not yet touched by anybody.
        body: as the parser saw it, all of it.
        most: bytes of a head that is let in.
    """
    size, most = data.find(_END) + len(_END), min(_LONGEST, most - _DIGITS)
    if not len(_END) <= size <= most or data[size:] != body:
        return None
    headers = list(scope["headers"])
    # Each header in a line of its own, as most are written, or the lines' places wouldn't be the headers'.
    _, *lines = data[: size - len(_END)].split(b"\r\n")
    if [line.lower() for line in lines] != [b"%b: %b" % (name, value.lower()) for name, value in headers]:
        return None
    lengths = [place for place, header in enumerate(headers) if header == (b"content-length", b"%d" % len(body))]
    return KnownHead(data[:size], scope, lengths[0], most) if len(lengths) == 1 else None
