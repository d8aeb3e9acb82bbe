"""`GET /mcp`: the event stream of a session, outside of its calls."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.types import Receive, Send

from mcp_swarm.http.event_stream import EVENT_STREAM_HEADERS, PING, event
from mcp_swarm.mcp.call import disconnected


async def send_stream(messages: AsyncGenerator[tuple[str, bytes]], receive: Receive, send: Send) -> None:
    """Send the messages, each with its event id, as events until they end or the client closes the connection.

    An empty message becomes a comment, which keeps the connection open. The first message is awaited before the head
    of the reply, so an exception of the messages' start leaves the reply open.
    """
    first = await anext(messages)
    await send({"type": "http.response.start", "status": 200, "headers": EVENT_STREAM_HEADERS})

    async def write(identity: str, message: bytes) -> None:
        body = event(message, identity) if message else PING
        await send({"type": "http.response.body", "body": body, "more_body": True})

    async def pump() -> None:
        async with aclosing(messages):
            await write(*first)
            async for identity, message in messages:
                await write(identity, message)

    tasks = [asyncio.ensure_future(pump()), asyncio.ensure_future(disconnected(receive))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[0].done():
            tasks[0].result()
            await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
