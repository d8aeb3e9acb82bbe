"""One HTTP/1.1 reply in the bytes that a connection received."""

from typing import NamedTuple


class UnreadableReply(Exception):
    """The bytes are not one reply with a Content-Length or in chunks."""


class Reply(NamedTuple):
    """Status and body of a reply. The body of an event stream with one event is the data of this event."""

    status: bytes
    """Three digits."""
    body: bytes


def parse(received: bytes) -> Reply | None:
    """Return the reply in some bytes; None while the reply is incomplete.

    Raises:
        UnreadableReply: The reply has neither a Content-Length nor chunks, or there is more than one reply.
    """
    end = received.find(b"\r\n\r\n")
    if end < 0:
        return None
    head = received[:end].lower() + b"\r\n"
    at = head.find(b"\r\ncontent-length:")
    if b"\r\ntransfer-encoding: chunked\r\n" in head:
        return _chunked(received, end + 4)
    if at < 0:
        raise UnreadableReply(f"no Content-Length (an event stream?) in the reply {_short(received)}")
    start = end + 4
    length = int(head[at + 17 : head.index(b"\r\n", at + 2)])
    if len(received) < start + length:
        return None
    if len(received) > start + length:
        raise UnreadableReply(f"more than one reply to one request: {_short(received)}")
    return Reply(received[9:12], received[start:])


def _chunked(received: bytes, start: int) -> Reply | None:
    """Return a reply whose body begins at `start` and has chunks (RFC 9112, section 7.1); None if it is incomplete."""
    body = b""
    while (end := received.find(b"\r\n", start)) >= 0:
        try:
            size = int(received[start:end], 16)
        except ValueError:
            raise UnreadableReply(f"no chunk in the reply {_short(received)}") from None
        start = end + 2 + size + 2
        if len(received) < start:
            break
        body += received[end + 2 : end + 2 + size]
        if not size:
            if len(received) > start:
                raise UnreadableReply(f"more than one reply to one request: {_short(received)}")
            data = body.partition(b"\ndata: ")[2]
            return Reply(received[9:12], data.partition(b"\n")[0] or body)
    return None


def _short(received: bytes) -> str:
    return repr(received[:300].decode("latin-1"))
