"""A connection that opens at its first use and stays open until `close`. A separate task holds the connection."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from contextvars import Context
from typing import Generic, TypeVar

T = TypeVar("T")


class Link(Generic[T]):
    """The value of an async context manager, opened at the first use and shared by many tasks.

    If the context manager fails to open, the next `get` makes a new context manager and opens it.
    """

    def __init__(self, make: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self._make = make
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[T] | None = None

    @property
    def is_open(self) -> bool:
        """Whether `get` was called at least once."""
        return self._opened is not None

    async def get(self) -> T:
        """Return the value; open the context manager first if it is not open. After an error, the next call retries."""
        if self._opened is None or (self._opened.done() and self._opened.exception() is not None):
            loop = asyncio.get_running_loop()
            self._opened = loop.create_future()
            # The context variables of the current task belong to one request. This long-lived task must not keep them.
            self._task = loop.create_task(self._keep(self._opened), context=Context())
        return await asyncio.shield(self._opened)

    async def close(self) -> None:
        """Close the context manager if it is open."""
        self._closing.set()
        if self._task is not None:
            await self._task

    async def _keep(self, opened: asyncio.Future[T]) -> None:
        try:
            async with self._make() as value:
                opened.set_result(value)
                await self._closing.wait()
        except Exception as error:
            if opened.done():
                raise
            opened.set_exception(error)
            opened.exception()  # otherwise asyncio logs the error if no task waits for the future any more
