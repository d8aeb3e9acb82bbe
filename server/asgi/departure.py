"""What hypercorn owes an app whose caller has gone: to let it go, too."""

import asyncio
from collections.abc import Awaitable
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Departure:
    """Ends waiting to send over an HTTP/2 connection that has ended; hypercorn (0.18) would wait for ever.

    Such a response would count as a call in flight from then on, until the replica refuses all others.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["http_version"] != "2":
            await self._app(scope, receive, send)
            return
        arrived: asyncio.Queue[Message] = asyncio.Queue()
        gone = asyncio.Event()

        async def pump() -> None:
            while True:
                message = await receive()
                arrived.put_nowait(message)
                if message["type"] == "http.disconnect":
                    gone.set()
                    return

        async def send_unless_gone(message: Message) -> None:
            await _first(send(message), gone.wait())

        pumping = asyncio.create_task(pump())
        try:
            await self._app(scope, arrived.get, send_unless_gone)
        finally:
            pumping.cancel()


async def _first(*work: Awaitable[Any]) -> None:
    """Do several things until one of them is done, and leave the others."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
    for task in done:
        task.result()
