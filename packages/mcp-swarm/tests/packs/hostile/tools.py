"""Tools that misbehave."""

import asyncio
import re
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from fastmcp import Context
from fastmcp.dependencies import Depends
from fastmcp.exceptions import ToolError
from fastmcp.tools import Tool, tool


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


async def _leave() -> None:
    sys.exit(4)


async def _hang() -> str:
    await asyncio.Event().wait()
    return "unreachable"


@tool
async def exits_in_a_task_group() -> str:
    """Exit, in a child of the call's own."""
    async with asyncio.TaskGroup() as group:
        group.create_task(_leave())
    return "unreachable"


@tool
async def exits_in_gather() -> str:
    """Exit, in one of two children."""
    await asyncio.gather(_leave(), asyncio.sleep(0))
    return "unreachable"


@tool
async def exits_in_the_background() -> str:
    """Exit, in a task that outlives the call."""
    asyncio.get_running_loop().call_later(0.1, lambda: asyncio.ensure_future(_leave()))
    return "done"


@tool
async def cancels_its_own_task() -> str:
    """Be cancelled by nobody else."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(1)
    return "unreachable"


@tool(timeout=0.3)
async def swallows_its_cancellation() -> str:
    """Go on, whatever comes."""
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            continue


@tool
async def depends_on_what_hangs(value: str = Depends(_hang)) -> str:
    """Wait for a dependency for ever."""
    return value


@tool
async def depends_on_an_exit(value: None = Depends(_leave)) -> str:
    """Have a dependency that exits."""
    return str(value)


def _exits_by_hand() -> str:
    """Exit, as a component that was made without the decorator."""
    sys.exit(5)


made_by_hand = Tool.from_function(_exits_by_hand, name="made_by_hand")


@tool
async def yields_for_ever() -> AsyncIterator[int]:
    """Never wait, never end."""
    while True:
        yield 1


@tool
def yields_for_ever_in_thread() -> Iterator[int]:
    """Never end, in a thread."""
    while True:
        yield 1


@tool
async def returns_infinity() -> float:
    """Return what is no JSON number."""
    return float("inf")


@tool
async def returns_words_like_nan() -> dict[str, str]:
    """Return text that only looks like it."""
    return {"name": "NaN, Infinity"}


@tool
async def complains_in_surrogates() -> str:
    """Tell the caller what UTF-8 can't carry."""
    raise ToolError("broken \ud800 text")


@tool
async def backtracks() -> str:
    """Hold the interpreter's lock, as a bad regular expression does."""
    return str(re.match(r"(a+)+$", "a" * 60 + "b"))
