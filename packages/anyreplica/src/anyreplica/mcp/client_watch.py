"""News about the client of a call while the call runs."""

import asyncio
from collections.abc import Coroutine
from enum import Enum
from typing import Any


class ClientNews(Enum):
    """What has happened."""

    GONE = "the client has closed the connection"
    CANCELLED = "the client has cancelled the call"
    MOVE_ON = "the client goes on over another connection"
    DRAIN = "this replica drains, so the client must go on over another connection"


class ClientWatch:
    """Watches the connection of a call, and takes news from other places.

    Args:
        gone: waits until the client closes the connection.

    Attributes:
        news: a future that is done when there are news.
        cancelled: whether the client has cancelled the call.
    """

    __slots__ = ("_gone", "_waiting", "cancelled", "news")

    def __init__(self, gone: Coroutine[Any, Any, None]) -> None:
        loop = asyncio.get_running_loop()
        self.cancelled = False
        self._waiting: list[ClientNews] = []
        self.news: asyncio.Future[None] = loop.create_future()
        self._gone = asyncio.Task(self._watch(gone), loop=loop)  # without the task factory, which is for components

    def take(self) -> ClientNews:
        """Return the oldest news, and wait for further news."""
        found = self._waiting.pop(0)
        self.news = asyncio.get_running_loop().create_future()
        if self._waiting:
            self.news.set_result(None)
        return found

    def cancel(self) -> None:
        """Note that the client has cancelled the call."""
        self.cancelled = True
        self._note(ClientNews.CANCELLED)

    def move_on(self) -> None:
        """Note that the client goes on over another connection."""
        self._note(ClientNews.MOVE_ON)

    def drain(self) -> None:
        """Note that the client must go on over another connection, because this replica drains."""
        self._note(ClientNews.DRAIN)

    def close(self) -> None:
        """Stop watching."""
        self._gone.cancel()

    async def _watch(self, gone: Coroutine[Any, Any, None]) -> None:
        await gone
        self._note(ClientNews.GONE)

    def _note(self, news: ClientNews) -> None:
        self._waiting.append(news)
        if not self.news.done():
            self.news.set_result(None)
