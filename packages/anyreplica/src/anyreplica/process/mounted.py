"""The lifespan of an app as a context manager, for an app that another app mounts.

An ASGI server sends the lifespan messages only to the outermost app (ASGI specification, lifespan protocol).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import ASGIApp, Message


class NotStartedError(RuntimeError):
    """A request needs an app whose lifespan nobody has run."""

    def __init__(self) -> None:
        super().__init__(
            "anyreplica: this app has not started. An app that mounts it must run its lifespan, for example "
            'Starlette(routes=[Mount("/api", app)], lifespan=app.lifespan).'
        )


@asynccontextmanager
async def running(app: ASGIApp) -> AsyncIterator[None]:
    """Start an app with the messages of the lifespan protocol, and stop it at the end.

    Raises:
        RuntimeError: the app has not started. It has printed the reason.
    """
    received = asyncio.Queue[Message]()
    sent = asyncio.Queue[Message]()
    scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": {}}
    # The app runs in one task from start to stop, because it may enter cancel scopes.
    task: asyncio.Task[None] = asyncio.ensure_future(app(scope, received.get, sent.put))
    task.add_done_callback(lambda _: sent.put_nowait({"type": "lifespan.ended"}))
    await received.put({"type": "lifespan.startup"})
    if (await sent.get())["type"] != "lifespan.startup.complete":
        await task
        raise RuntimeError("anyreplica: the replica has not started; the line before says why")
    try:
        yield
    finally:
        await received.put({"type": "lifespan.shutdown"})
        await task
