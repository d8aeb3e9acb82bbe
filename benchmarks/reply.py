"""One HTTP/1.1 reply out of the bytes that a connection received."""

from typing import NamedTuple


class UnreadableReply(Exception):
    """Bytes that aren't one reply with a Content-Length."""


class Reply(NamedTuple):
    """What a reply says."""

    status: bytes
    """Three digits."""
    body: bytes


def parse(received: bytes) -> Reply | None:
    """The reply that the bytes are; None while some of it is missing.

    Raises:
        UnreadableReply: an event stream or another reply without a Content-Length, or more than one reply.
    """
    end = received.find(b"\r\n\r\n")
    if end < 0:
        return None
    head = received[:end].lower() + b"\r\n"
    at = head.find(b"\r\ncontent-length:")
    if at < 0:
        raise UnreadableReply(f"no Content-Length (an event stream?) in the reply {_shown(received)}")
    start = end + 4
    length = int(head[at + 17 : head.index(b"\r\n", at + 2)])
    if len(received) < start + length:
        return None
    if len(received) > start + length:
        raise UnreadableReply(f"more than one reply to one request: {_shown(received)}")
    return Reply(received[9:12], received[start:])


def _shown(received: bytes) -> str:
    return repr(received[:300].decode("latin-1"))
