"""The scope of `Shared(...)` dependencies: each of them is opened once in a replica, and closed when the server stops.

FastMCP opens the scope in the lifespan, and sets its context variables again in each request. Here the variables are
set once, in the context from which all requests start. Calls on all paths find the scope there.
This module uses private names of FastMCP, which `tests/test_private_names.py` lists.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from typing import Any

from fastmcp import FastMCP
from uncalled_for import SharedContext

from anyreplica.mcp.compat.sdk import low_level


def _scope() -> dict[ContextVar[Any], Any]:
    return {SharedContext.resolved: {}, SharedContext.lock: asyncio.Lock(), SharedContext.stack: AsyncExitStack()}


def set_scope() -> None:
    """Set an empty scope in the current context. Call it before the ASGI server starts."""
    for variable, value in _scope().items():
        variable.set(value)


@asynccontextmanager
async def lifespan(mcp: FastMCP) -> AsyncIterator[Any]:
    """Enter the lifespan of a server, and yield what it returns. All requests then use the scope of `set_scope`.

    If this task has no scope of `set_scope`, requests have none, either. Then each call sets the scope, see `Binding`.
    """
    inherited = SharedContext.resolved.get(None) is not None
    scope = {each: each.get() if inherited else value for each, value in _scope().items()}
    server = low_level(mcp)
    async with server.lifespan(server) as state:
        if SharedContext.resolved.get(None) is None:  # another task has entered the lifespan, and has FastMCP's scope
            yield state
            return
        opened, stack = SharedContext.resolved.get(), SharedContext.stack.get()  # FastMCP's scope
        scope[SharedContext.resolved].update(opened)
        stack.callback(scope[SharedContext.resolved].clear)
        stack.push_async_callback(scope[SharedContext.stack].aclose)
        mcp._shared_context_snapshot = scope
        if inherited:
            for variable, value in scope.items():
                variable.set(value)
        yield state
