"""One HTTP/1.1 reply in the bytes that a connection received."""

from typing import NamedTuple


class UnreadableReply(Exception):
    """The bytes are not one reply with a Content-Length."""


class Reply(NamedTuple):
    """Status and body of a reply."""

    status: bytes
    """Three digits."""
    body: bytes


def parse(received: bytes) -> Reply | None:
    """Return the reply in some bytes; None while the reply is incomplete.

    Raises:
        UnreadableReply: The reply has no Content-Length, or there is more than one reply.
    """
    end = received.find(b"\r\n\r\n")
    if end < 0:
        return None
    head = received[:end].lower() + b"\r\n"
    at = head.find(b"\r\ncontent-length:")
    if at < 0:
        raise UnreadableReply(f"no Content-Length (an event stream?) in the reply {_short(received)}")
    start = end + 4
    length = int(head[at + 17 : head.index(b"\r\n", at + 2)])
    if len(received) < start + length:
        return None
    if len(received) > start + length:
        raise UnreadableReply(f"more than one reply to one request: {_short(received)}")
    return Reply(received[9:12], received[start:])


def _short(received: bytes) -> str:
    return repr(received[:300].decode("latin-1"))
