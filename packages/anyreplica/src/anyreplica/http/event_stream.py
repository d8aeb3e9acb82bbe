"""Event streams: their headers, events and comments (WHATWG HTML, "Server-sent events")."""

# The last two headers stop proxies from buffering events.
EVENT_STREAM_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]

PING = b": ping\r\n\r\n"
"""A comment that keeps an event stream open."""

FIRST_WITH_EMPTY = "2025-11-25"
"""The protocol version from which on clients accept an event with an id and empty data (Transports, "Sending Messages
to the Server")."""

PING_SECONDS = 15.0
"""Seconds without an event after which an open event stream gets a comment, so that no proxy closes the stream."""


def event(message: bytes, identity: str = "") -> bytes:
    """Return a JSON-RPC message as an event, with an id if it has one."""
    named = b"id: %b\r\n" % identity.encode() if identity else b""
    return b"event: message\r\n%bdata: %b\r\n\r\n" % (named, message)


def empty_event(identity: str) -> bytes:
    """Return an event without a message. A client that loses the connection after it can resume from this id."""
    return b"id: %b\r\ndata: \r\n\r\n" % identity.encode()
