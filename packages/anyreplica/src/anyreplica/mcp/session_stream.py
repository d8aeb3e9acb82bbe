"""`GET /mcp`: the event stream of a session, outside of its calls."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.types import Receive, Send

from anyreplica.http.event_stream import EVENT_STREAM_HEADERS, PING, empty_event, event
from anyreplica.mcp.call import disconnected


async def send_stream(messages: AsyncGenerator[tuple[str, bytes]], receive: Receive, send: Send) -> None:
    """Send the messages, each with its event id, as events until they end or the client closes the connection.

    An empty message becomes an empty event if it has an id, and otherwise a comment. Both keep the connection open. The
    first message is awaited before the head of the reply, so an exception of the messages' start leaves the reply open.
    """
    first = await anext(messages)
    await send({"type": "http.response.start", "status": 200, "headers": EVENT_STREAM_HEADERS})

    async def write(identity: str, message: bytes) -> None:
        nothing = empty_event(identity) if identity else PING
        body = event(message, identity) if message else nothing
        await send({"type": "http.response.body", "body": body, "more_body": True})

    task = asyncio.current_task()
    assert task is not None  # noqa: S101
    # A task of its own for the messages would take 3 kB per stream.
    gone = asyncio.ensure_future(disconnected(receive))
    gone.add_done_callback(end := lambda _: task.cancel())
    try:
        async with aclosing(messages):
            await write(*first)
            async for identity, message in messages:
                await write(identity, message)
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    except asyncio.CancelledError:
        if not gone.done() or task.uncancel():  # not only the client has ended the stream
            raise
    finally:
        gone.remove_done_callback(end)
        gone.cancel()
