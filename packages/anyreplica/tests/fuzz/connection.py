"""Connections that send bytes to a replica and read its replies."""

import re
import select
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO

import httptools

SECONDS = 20
"""Time limit for a reply, in seconds; a slower reply counts as missing."""

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)


class NoReply(Exception):
    """A reply is missing or incomplete; the message says how the connection ended or stayed silent."""


class Cut(NoReply):
    """The connection ended within a reply."""


@dataclass(frozen=True)
class Reply:
    """A response."""

    status: int
    head: bytes
    """The head, including the empty line at its end."""
    body: bytes

    @property
    def is_last(self) -> bool:
        """Whether the reply says that the connection ends."""
        return b"\r\nconnection: close\r\n" in self.head.lower()


class Asked:
    """The requests that httptools, the parser of the server, finds in some bytes."""

    def __init__(self, data: bytes) -> None:
        self.methods: list[bytes] = []
        """Methods of the complete requests."""
        self.broken = False
        """Whether invalid HTTP follows these requests."""
        self._in_body = False
        self.open = False
        """Whether the server waits for the rest of a request."""
        self.upgraded = False
        """Whether a request asks for another protocol, so that the server does not read the bytes after it."""
        self._parser = httptools.HttpRequestParser(self)
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)  # uvicorn sets this option, too
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.upgraded = True
        except httptools.HttpParserError:
            self.broken = True

    def on_message_begin(self) -> None:
        """Note that a request begins; called by the parser."""
        self.open = True

    def on_headers_complete(self) -> None:
        """Note that a head is complete; called by the parser."""
        self._in_body = True

    def on_message_complete(self) -> None:
        """Note that a request is complete; called by the parser."""
        self.open = self._in_body = False
        self.methods.append(self._parser.get_method())

    @property
    def replies(self) -> int:
        """Number of replies that must come; one with an invalid body may only come at the time limit."""
        return len(self.methods) or (1 if self.broken and not self._in_body else 0)


class Connection:
    """A connection to a replica, opened when something is sent and opened again after its end."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None
        self._stream: BinaryIO | None = None

    def send(self, *pieces: bytes) -> None:
        """Send bytes, each piece separately. They are lost if the replica has stopped reading."""
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), SECONDS)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._stream = self._socket.makefile("rb")
        with suppress(BrokenPipeError, ConnectionResetError):
            for piece in pieces:
                self._socket.sendall(piece)

    def read(self, asked: Asked) -> list[Reply]:
        """Return the replies, or raise `NoReply` if one is missing and no earlier one announced the end."""
        replies: list[Reply] = []
        while len(replies) < asked.replies:
            method = asked.methods[len(replies)] if len(replies) < len(asked.methods) else b""
            reply = self._reply(method)
            if reply is None:
                raise NoReply(f"the connection ended after {len(replies)} of {asked.replies} replies")
            if reply.status >= 200:
                replies.append(reply)
            if reply.is_last or self._socket is None:
                break
        else:
            if not asked.broken:
                return replies
        self.close()
        return replies

    @property
    def is_silent(self) -> bool:
        """Whether the connection is open and no unread bytes have arrived."""
        return self._socket is not None and not select.select([self._socket], [], [], 0)[0]

    def wait_for_reply_or_end(self) -> None:
        """Wait until the replica sends something or ends the connection, or raise `NoReply`."""
        assert self._stream is not None
        try:
            self._stream.read(1)
        except TimeoutError:
            raise NoReply(f"no bytes within {SECONDS} s") from None
        except ConnectionResetError:
            pass
        self.close()

    def finish(self) -> list[Reply]:
        """Close the sending side, and read until the replica ends the connection, or raise `NoReply`."""
        replies: list[Reply] = []
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)
            with suppress(Cut):  # a cut reply is allowed, because the request was cut, too
                while self._stream is not None and (reply := self._reply(b"")) is not None:
                    replies.append(reply)
        self.close()
        return replies

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None and self._stream is not None:
            self._stream.close()
            self._socket.close()
        self._socket = self._stream = None

    def _reply(self, method: bytes) -> Reply | None:
        """Return the next reply to a request of this method, or None at the end of the connection."""
        assert self._stream is not None
        try:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                line = self._stream.readline()
                if not line:
                    if head:
                        raise Cut(f"the connection ended within a head: {head[:200]!r}")
                    return None
                head += line
            status = int(head[9:12])
            has_none = method == b"HEAD" or status in (204, 304) or status < 200
            return Reply(status, head, self._body(head, has_none=has_none))
        except TimeoutError:
            raise NoReply(f"no bytes within {SECONDS} s") from None
        except ConnectionResetError:
            return None

    def _body(self, head: bytes, *, has_none: bool) -> bytes:
        assert self._stream is not None
        assert self._socket is not None
        if has_none:
            return b""
        length = _LENGTH.search(head)
        if length is not None:
            body = self._stream.read(int(length[1]))
            if len(body) < int(length[1]):
                raise Cut(f"the connection ended after {len(body)} of {int(length[1])} bytes of a body")
            return body
        if b"text/event-stream" in head:  # an event stream may have no end
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)
            body = self._drain()
            self.close()
            return body
        return self._drain()

    def _drain(self) -> bytes:
        assert self._stream is not None
        try:
            return self._stream.read()
        except TimeoutError:
            raise NoReply(f"the connection did not end within {SECONDS} s") from None
        except ConnectionResetError:
            return b""
