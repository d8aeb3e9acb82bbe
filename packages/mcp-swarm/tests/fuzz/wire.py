"""Bytes on their way to a replica, and the replies that come back."""

import re
import select
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO

import httptools

SECONDS = 20
"""Time for a reply; a replica that lets callers wait for longer has lost them."""

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)


class NoReply(Exception):
    """What was sent should have been answered; `str()` says what came instead."""


class Cut(NoReply):
    """A part of a reply came, and then the connection's end."""


@dataclass(frozen=True)
class Reply:
    """A response."""

    status: int
    head: bytes
    """With the empty line behind it."""
    body: bytes

    @property
    def is_last(self) -> bool:
        """Whether it says that its connection ends."""
        return b"\r\nconnection: close\r\n" in self.head.lower()


class Asked:
    """What a parser of the server's kind sees in some bytes."""

    def __init__(self, data: bytes) -> None:
        self.methods: list[bytes] = []
        """Of the requests whose last byte is there."""
        self.broken = False
        """Whether what comes behind them is no HTTP."""
        self._in_body = False
        self.open = False
        """Whether the server waits for more of a request."""
        self.upgraded = False
        """Whether it asks for another protocol, so that nobody reads what comes behind it."""
        self._parser = httptools.HttpRequestParser(self)
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.upgraded = True
        except httptools.HttpParserError:
            self.broken = True

    def on_message_begin(self) -> None:
        """Called by the parser."""
        self.open = True

    def on_headers_complete(self) -> None:
        """Called by the parser."""
        self._in_body = True

    def on_message_complete(self) -> None:
        """Called by the parser."""
        self.open = self._in_body = False
        self.methods.append(self._parser.get_method())

    @property
    def replies(self) -> int:
        """How many must come, unless one of them says that it is the last.

        A request whose body turns out to be none, in the middle, may be waited for until its time is up.
        """
        return len(self.methods) or (1 if self.broken and not self._in_body else 0)


class Connection:
    """A connection to a replica, made when something is sent, and made anew when it has ended."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None
        self._stream: BinaryIO | None = None

    def send(self, *pieces: bytes) -> None:
        """Send bytes, each piece by itself; what a replica that has seen enough doesn't take is lost."""
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), SECONDS)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._stream = self._socket.makefile("rb")
        with suppress(BrokenPipeError, ConnectionResetError):
            for piece in pieces:
                self._socket.sendall(piece)

    def read(self, asked: Asked) -> list[Reply]:
        """The replies to what was asked.

        Raises:
            NoReply: there are fewer, and none says that it is the last; or one isn't whole.
        """
        replies: list[Reply] = []
        while len(replies) < asked.replies:
            method = asked.methods[len(replies)] if len(replies) < len(asked.methods) else b""
            reply = self._reply(method)
            if reply is None:
                raise NoReply(f"{len(replies)} of {asked.replies} replies, then the end")
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
        """Whether nothing has come that wasn't read."""
        return self._socket is not None and not select.select([self._socket], [], [], 0)[0]

    def await_word(self) -> None:
        """Send nothing until the replica says something or ends the connection.

        Raises:
            NoReply: it does neither.
        """
        assert self._stream is not None
        try:
            self._stream.read(1)
        except TimeoutError:
            raise NoReply(f"nothing within {SECONDS} s") from None
        except ConnectionResetError:
            pass
        self.close()

    def finish(self) -> list[Reply]:
        """Send no more, and read what else comes until the replica ends the connection, too.

        Raises:
            NoReply: it doesn't.
        """
        replies: list[Reply] = []
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)
            with suppress(Cut):  # as its request was
                while self._stream is not None and (reply := self._reply(b"")) is not None:
                    replies.append(reply)
        self.close()
        return replies

    def close(self) -> None:
        """End it."""
        if self._socket is not None and self._stream is not None:
            self._stream.close()
            self._socket.close()
        self._socket = self._stream = None

    def _reply(self, method: bytes) -> Reply | None:
        """The next reply, to a request of a method; None at the end of the connection."""
        assert self._stream is not None
        try:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                line = self._stream.readline()
                if not line:
                    if head:
                        raise Cut(f"half a head: {head[:200]!r}")
                    return None
                head += line
            status = int(head[9:12])
            return Reply(
                status, head, self._body(head, has_none=method == b"HEAD" or status in (204, 304) or status < 200)
            )
        except TimeoutError:
            raise NoReply(f"nothing within {SECONDS} s") from None
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
                raise Cut(f"{len(body)} bytes of a body of {int(length[1])}")
            return body
        if b"text/event-stream" in head:  # which may have no end of its own
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
            raise NoReply(f"no end of the connection within {SECONDS} s") from None
        except ConnectionResetError:
            return b""
