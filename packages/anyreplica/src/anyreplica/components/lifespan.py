"""The decorator `@lifespan`: code that runs before the first request and after the last one."""

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from anyreplica.components.importing import MARK

Lifespan = Callable[[], AbstractAsyncContextManager[None]]


def lifespan(function: Callable[[], AsyncIterator[None]]) -> Lifespan:
    """Mark an async generator function that opens something, yields once, and closes it.

    A replica or worker runs the part before `yield` at its start, before the first request or job. It runs the part
    after `yield` when it stops. A server may have several lifespans: the one that was opened last is closed first. If a
    lifespan raises an exception before `yield`, the process does not start.

    Raises:
        TypeError: the function is not an async generator function, or it has parameters.

    Example:

        from collections.abc import AsyncIterator

        import httpx2
        from fastmcp.tools import tool

        from anyreplica import lifespan

        clients: list[httpx2.AsyncClient] = []

        @lifespan
        async def client() -> AsyncIterator[None]:
            async with httpx2.AsyncClient() as opened:
                clients[:] = [opened]
                yield

        @tool
        async def title(url: str) -> str:
            return (await clients[0].get(url)).text[:100]
    """
    if not inspect.isasyncgenfunction(function) or inspect.signature(function).parameters:
        raise TypeError("@lifespan needs an async function without arguments that yields once")
    opened = asynccontextmanager(function)
    setattr(opened, MARK, "lifespan")
    return opened
