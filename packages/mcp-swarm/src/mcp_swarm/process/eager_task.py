"""Tasks that begin at once."""

import asyncio
import sys
from collections.abc import Coroutine
from contextvars import Context
from typing import Any, TypeVar

T = TypeVar("T")

if sys.version_info >= (3, 12):

    def start(
        coro: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop, context: Context | None = None
    ) -> asyncio.Task[T]:
        """Run a coroutine in a task of its own, at once up to its first wait, where Python can; most never wait.

        Past the loop's task factory, which is for the tasks of components (`mcp_swarm.process.task_exits`).

        Args:
            context: to run it in; None: a copy of the current one.
        """
        return asyncio.Task(coro, loop=loop, context=context, eager_start=True)

else:

    def start(
        coro: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop, context: Context | None = None
    ) -> asyncio.Task[T]:
        """Run a coroutine in a task of its own; see above."""
        return asyncio.Task(coro, loop=loop, context=context)
