"""Something that is opened when it is first needed, and stays open in a task of its own until it is closed."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from contextvars import Context
from typing import Generic, TypeVar

T = TypeVar("T")


class Link(Generic[T]):
    """What a context manager gives, for many tasks at once; made anew if entering it failed."""

    def __init__(self, make: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self._make = make
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[T] | None = None

    @property
    def is_open(self) -> bool:
        """Whether it was needed already."""
        return self._opened is not None

    async def get(self) -> T:
        """What it gives, opened if it isn't yet. If that raises, the next call tries again."""
        if self._opened is None or (self._opened.done() and self._opened.exception() is not None):
            loop = asyncio.get_running_loop()
            self._opened = loop.create_future()
            # What is set in the caller's context belongs to its request, and would live as long as this.
            self._task = loop.create_task(self._keep(self._opened), context=Context())
        return await asyncio.shield(self._opened)

    async def close(self) -> None:
        """Close it, if it is open."""
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
            opened.exception()  # looked at, also if the caller has gone meanwhile
