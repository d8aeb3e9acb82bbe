"""Wait for a call as long as its caller does."""

import asyncio
from typing import Any

from starlette.types import Receive

from mcp_swarm.http.refusal import ClientGone
from mcp_swarm.mcp.reply import PING_SECONDS, Reply


async def watch(task: asyncio.Task[Any], receive: Receive, reply: Reply, seconds: float | None = None) -> None:
    """Wait until a call's task is done, and keep its event stream (if it has begun one) alive meanwhile.

    Args:
        receive: of the request, whose body has been read: the next that comes is the end of the connection.
        seconds: how long to wait; None: for ever.

    Raises (and cancels the task, without waiting for its end):
        ClientGone: the caller closed the connection.
        TimeoutError: the time is over.
        CancelledError: this replica stops.
    """
    loop = asyncio.get_running_loop()
    deadline = None if seconds is None else loop.time() + seconds
    gone = loop.create_task(_gone(receive))
    try:
        while True:
            pause = PING_SECONDS if deadline is None else min(PING_SECONDS, deadline - loop.time())
            await asyncio.wait((task, gone), timeout=max(pause, 0), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return
            if gone.done():
                raise ClientGone
            if deadline is not None and loop.time() >= deadline:
                raise TimeoutError
            if reply.streaming:
                try:
                    await asyncio.wait_for(reply.ping(), 1)
                except TimeoutError:
                    pass  # a reader that is slow must not hold up the looking
                except RuntimeError:  # uvloop's, of a connection whose end has not been told yet
                    raise ClientGone from None
    finally:
        gone.cancel()
        if not task.done():
            abandon(task)


def abandon(task: asyncio.Task[Any]) -> None:
    """Cancel a task that nobody waits for any more, and look at its end, or asyncio logs that nobody did."""
    task.cancel()
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
