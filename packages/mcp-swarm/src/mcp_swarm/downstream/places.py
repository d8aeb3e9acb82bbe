"""How many calls go to a host at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Full(Exception):
    """As many run, and as many wait, as may."""


class Places:
    """Places for calls, and as many to wait for one, first come, first served.

    More that wait would fill the replica (`MAX_IN_FLIGHT`) with calls of a host that is slow.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.taken = 0
        self.waiting = 0
        self._free = asyncio.Semaphore(count)

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Have a place within the block.

        Raises:
            Full: none is free, nor one to wait at.
        """
        if self._free.locked() and self.waiting >= self.count:
            raise Full
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1
            self._free.release()
