"""Tools that misbehave."""

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from fastmcp import Context
from fastmcp.exceptions import ToolError
from fastmcp.tools import tool


class _Opaque:
    """JSON knows nothing of this."""


@tool
async def raises() -> str:
    """Fail with a secret in the message."""
    raise ValueError("the password is hunter2")


@tool
async def raises_for_the_caller() -> str:
    """Fail with a message that is meant for the caller."""
    raise ToolError("no such account")


@tool
async def exits() -> str:
    """Exit, on the event loop."""
    sys.exit(3)


@tool
def exits_in_thread() -> str:
    """Exit, in a thread."""
    sys.exit(3)


@tool
async def interrupts() -> str:
    """Raise what Ctrl-C raises."""
    raise KeyboardInterrupt


@tool
async def cancels_itself() -> str:
    """Raise what a cancelled task raises, without being cancelled."""
    raise asyncio.CancelledError


@tool(timeout=0.3)
async def never_ends() -> str:
    """Wait for ever, with a timeout of its own."""
    await asyncio.Event().wait()
    return "unreachable"


@tool(timeout=0.3)
def never_ends_in_thread() -> str:
    """Hold a thread for ever (as good as: a test's process should end at last)."""
    threading.Event().wait(600)
    return "unreachable"


@tool
async def never_ends_by_default() -> str:
    """Wait for ever, with no timeout of its own."""
    await asyncio.Event().wait()
    return "unreachable"


@tool
async def blocks_the_loop(seconds: float) -> str:
    """Hold up the whole event loop."""
    time.sleep(seconds)  # noqa: ASYNC251  # that is the point
    return "done"


@tool
async def returns_object() -> Any:
    """Return what JSON doesn't know."""
    return {"value": _Opaque()}


@tool
async def returns_surrogate() -> str:
    """Return text that UTF-8 can't carry."""
    return "\ud800"


@tool
async def returns_itself() -> Any:
    """Return a list that contains itself."""
    endless: list[Any] = []
    endless.append(endless)
    return endless


@tool
async def returns_bytes() -> bytes:
    """Return bytes that aren't UTF-8."""
    return b"\xff\xfe"


@tool
async def streams() -> AsyncIterator[int]:
    """Yield, on the event loop."""
    for number in range(3):
        yield number


@tool
def streams_in_thread() -> Iterator[int]:
    """Yield, in a thread."""
    yield from range(3)


@tool
def names_its_thread(context: Context) -> str:
    """Say which thread runs a `def` that takes a context."""
    return f"{threading.current_thread().name} {context.request_id}"


@tool(run_in_thread=False)
def stays_on_the_loop() -> str:
    """Say which thread runs a `def` that asks for the event loop's."""
    return threading.current_thread().name
