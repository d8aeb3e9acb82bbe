"""Tools that misbehave."""

import asyncio
import re
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from fastmcp import Context
from fastmcp.exceptions import ToolError
from fastmcp.tools import Tool, tool

from tests.packs.returning import depending, raising, returning


class _Opaque:
    """A value that JSON cannot represent."""


_RAISED: dict[str, tuple[Any, ...]] = {
    "raises": (ValueError, "the password is hunter2"),
    "raises_for_the_caller": (ToolError, "no such account"),
    "exits": (SystemExit, 3),
    "interrupts": (KeyboardInterrupt,),  # like Ctrl-C
    "cancels_itself": (asyncio.CancelledError,),  # although nothing has cancelled the call
    "complains_in_surrogates": (ToolError, "broken \ud800 text"),
}
_ENDLESS: list[Any] = []
_ENDLESS.append(_ENDLESS)
_RESULTS: dict[str, tuple[Any, ...]] = {
    "returns_object": ({"value": _Opaque()}, Any),
    "returns_surrogate": ("\ud800", str),
    "returns_itself": (_ENDLESS, Any),
    "returns_bytes": (b"\xff\xfe", bytes),
    "returns_infinity": (float("inf"), float),
    "returns_words_like_nan": ({"name": "NaN, Infinity"}, dict[str, str]),
}
globals().update(raising(_RAISED) | returning(_RESULTS))


@tool
def exits_in_thread() -> str:
    """Exit the process from a thread."""
    sys.exit(3)


@tool(timeout=0.3)
async def never_ends() -> str:
    """Wait forever. The tool has a timeout of its own."""
    await asyncio.Event().wait()
    return "unreachable"


@tool(timeout=0.3)
def never_ends_in_thread() -> str:
    """Block a thread for 600 seconds. An endless block would keep the test's process from ending."""
    threading.Event().wait(600)
    return "unreachable"


@tool
async def never_ends_by_default() -> str:
    """Wait forever. The tool has no timeout of its own."""
    await asyncio.Event().wait()
    return "unreachable"


@tool
async def blocks_the_loop(seconds: float) -> str:
    """Block the whole event loop."""
    time.sleep(seconds)  # noqa: ASYNC251  # The tool must block.
    return "done"


@tool
async def streams() -> AsyncIterator[int]:
    """Yield items on the event loop."""
    for number in range(3):
        yield number


@tool
def streams_in_thread() -> Iterator[int]:
    """Yield items in a thread."""
    yield from range(3)


@tool
def names_its_thread(context: Context) -> str:
    """Return the request's id and the name of the thread that runs a `def` with a context."""
    return f"{threading.current_thread().name} {context.request_id}"


@tool(run_in_thread=False)
def stays_on_the_loop() -> str:
    """Return the name of the thread that runs a `def` on the event loop."""
    return threading.current_thread().name


async def _leave() -> None:
    sys.exit(4)


async def _hang() -> str:
    await asyncio.Event().wait()
    return "unreachable"


globals().update(depending({"depends_on_what_hangs": _hang, "depends_on_an_exit": _leave}))


@tool
async def exits_in_a_task_group() -> str:
    """Exit the process in a child task of the call."""
    async with asyncio.TaskGroup() as group:
        group.create_task(_leave())
    return "unreachable"


@tool
async def exits_in_gather() -> str:
    """Exit the process in one of two child tasks."""
    await asyncio.gather(_leave(), asyncio.sleep(0))
    return "unreachable"


@tool
async def exits_in_the_background() -> str:
    """Exit the process in a task that continues after the call."""
    asyncio.get_running_loop().call_later(0.1, lambda: asyncio.ensure_future(_leave()))
    return "done"


@tool
async def cancels_its_own_task() -> str:
    """Cancel the task that runs the call."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(1)
    return "unreachable"


@tool(timeout=0.3)
async def swallows_its_cancellation() -> str:
    """Ignore every cancellation and continue to wait."""
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            continue


def _exits_by_hand() -> str:
    """Exit the process from a component without a decorator."""
    sys.exit(5)


made_by_hand = Tool.from_function(_exits_by_hand, name="made_by_hand")


@tool
async def yields_for_ever() -> AsyncIterator[int]:
    """Yield items forever without a wait."""
    while True:
        yield 1


@tool
def yields_for_ever_in_thread() -> Iterator[int]:
    """Yield items forever in a thread."""
    while True:
        yield 1


@tool
async def backtracks() -> str:
    """Hold the interpreter's lock with a slow regular expression."""
    return str(re.match(r"(a+)+$", "a" * 60 + "b"))
