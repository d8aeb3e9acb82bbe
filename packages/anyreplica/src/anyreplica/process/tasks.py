"""Tasks that start to run at once, and tasks that run in the background during a block."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

start_eagerly: Callable[..., asyncio.Task[Any]] = asyncio.Task
if sys.version_info >= (3, 12):
    start_eagerly = partial(asyncio.Task, eager_start=True)
"""Run a coroutine in a new task.

From Python 3.12 on, the task runs at once, up to its first wait. Most tasks never wait. The keyword
arguments are those of `asyncio.Task`: `loop` and `context`. This function does not use the task factory of the loop,
because that factory is for the tasks of components (`anyreplica.process.event_loop`).
"""


@asynccontextmanager
async def background_task(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run `work` as a task inside the block. At the end of the block, cancel the task and wait for its end."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
