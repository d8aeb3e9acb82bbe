"""For tool authors: open what tools and jobs need before the first request, and close it after the last."""

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from mcp_swarm.components.marks import MARK

Lifespan = Callable[[], AbstractAsyncContextManager[None]]


def lifespan(function: Callable[[], AsyncIterator[None]]) -> Lifespan:
    """Mark an async generator function that opens something, yields once, and closes it.

    Replicas and workers run it: the part before `yield` before the first request or job, the part after it when the
    process stops. A server may have several. What was opened last is closed first. If one raises, the process doesn't
    start.

    Raises:
        TypeError: it isn't an async generator function, or takes arguments.

    Example:

        from collections.abc import AsyncIterator

        import httpx2
        from fastmcp.tools import tool

        from mcp_swarm import lifespan

        clients: list[httpx2.AsyncClient] = []

        @lifespan
        async def client() -> AsyncIterator[None]:
            async with httpx2.AsyncClient() as made:
                clients[:] = [made]
                yield

        @tool
        async def title(url: str) -> str:
            return (await clients[0].get(url)).text[:100]
    """
    if not inspect.isasyncgenfunction(function) or inspect.signature(function).parameters:
        raise TypeError("a lifespan is an async function without arguments that yields once")
    opened = asynccontextmanager(function)
    setattr(opened, MARK, "lifespan")
    return opened
