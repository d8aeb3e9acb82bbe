"""A request's body: read once, within a bound."""

from starlette.types import Message, Receive


class BodyTooLarge(Exception):
    """The body is larger than the server takes."""


class ClientGone(Exception):
    """The caller closed the connection before its request was complete."""


async def read(receive: Receive, declared: int | None, limit: int) -> bytes:
    """Read a whole request body.

    Args:
        declared: bytes that Content-Length announces, None if it doesn't; a lie here is refused before reading.
        limit: bytes that are taken at most.

    Raises:
        BodyTooLarge: more than `limit` bytes were announced or came.
        ClientGone: the connection closed first.
    """
    if declared is not None and declared > limit:
        raise BodyTooLarge
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise BodyTooLarge
        chunks.append(chunk)
        if not message.get("more_body", False):
            return b"".join(chunks)


def replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives a body already read, then whatever comes after it."""
    pending = True

    async def receive_again() -> Message:
        nonlocal pending
        if pending:
            pending = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return receive_again
