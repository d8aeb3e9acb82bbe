"""Tasks that begin at once."""

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

if sys.version_info >= (3, 12):

    def start(coro: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> asyncio.Task[T]:
        """Run a coroutine in a task of its own, at once up to its first wait, where Python can; most never wait.

        Past the loop's task factory, which is for the tasks of components (`server.task_exits`).
        """
        return asyncio.Task(coro, loop=loop, eager_start=True)

else:

    def start(coro: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> asyncio.Task[T]:
        """Run a coroutine in a task of its own; see above."""
        return asyncio.Task(coro, loop=loop)
