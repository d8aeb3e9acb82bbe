"""A request's body: read once, within a bound."""

from starlette.types import Message, Receive

from server.exchange.errors import ClientGone, Refused


async def read(receive: Receive, declared: bytes | None, limit: int) -> bytes:
    """Read a whole request body.

    Args:
        declared: what Content-Length announces, if anything; a lie here is refused before reading.
        limit: bytes that are taken at most.

    Raises:
        Refused: 413 if more than `limit` bytes were announced or came.
        ClientGone: the connection closed first.
    """
    if declared is not None and int(declared) > limit:
        raise _too_large(limit)
    return await read_on(await receive(), receive, limit)


async def read_on(message: Message, receive: Receive, limit: int) -> bytes:
    """Read a body whose first part is there; otherwise as `read`."""
    chunks: list[bytes] = []
    size = 0
    while True:
        if message["type"] == "http.disconnect":
            raise ClientGone
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        if not message.get("more_body", False):
            return b"".join((*chunks, chunk)) if chunks else chunk
        chunks.append(chunk)
        message = await receive()


def _too_large(limit: int) -> Refused:
    # The rest of the body may still be on its way, hence no further request on this connection.
    text = f"The body is larger than the {limit} bytes that this server takes."
    return Refused(413, text, headers={"Connection": "close"})


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
