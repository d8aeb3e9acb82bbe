"""Jobs that take their time, fail, or end their worker. `mark` names a file that gets a line whenever a body runs."""

import asyncio
import os
import sys
from pathlib import Path

from fastmcp.exceptions import ToolError

from mcp_swarm import Progress, job


def _note(mark: str, word: str) -> int:
    """Write a line; returns how many of this word there are by now."""
    path = Path(mark)
    with path.open("a") as lines:
        lines.write(f"{word}\n")
    return path.read_text().split().count(word)


@job
async def nap(seconds: float, mark: str, progress: Progress) -> str:
    """Sleep, in a hundred steps."""
    _note(mark, "begun")
    try:
        for step in range(100):
            await progress(step, f"step {step}")
            await asyncio.sleep(seconds / 100)
    except asyncio.CancelledError:
        _note(mark, "cancelled")
        raise
    _note(mark, "ended")
    return "slept"


@job
async def silent_nap(mark: str) -> None:
    """Sleep, and report nothing."""
    _note(mark, "begun")
    try:
        await asyncio.sleep(60)
    finally:
        _note(mark, "cancelled")


@job
async def unsayable() -> None:
    """Fail, and say why in what UTF-8 can't carry, at length."""
    raise ToolError("no file \udcff" + 2000 * "x")


@job(timeout=0.5)
async def overlong(mark: str) -> str:
    """Take more than its time."""
    try:
        await asyncio.sleep(60)
    finally:
        _note(mark, "stopped")
    return "unreachable"


@job(retries=2)
async def fails_at_first(times: int, mark: str) -> int:
    """Raise so many times."""
    begun = _note(mark, "begun")
    if begun <= times:
        raise ValueError("the secret is hunter2")
    return begun


@job
async def tells(why: str) -> str:
    """Fail, and say why."""
    raise ToolError(why)


@job
async def kills_its_worker(times: int, mark: str) -> int:
    """End the worker's process so many times, as a crash does."""
    begun = _note(mark, "begun")
    if begun <= times:
        os._exit(137)
    return begun


@job
async def exits() -> str:
    """Raise what would end the worker."""
    sys.exit(3)


@job
async def cancels_itself() -> str:
    """Raise what a cancelled task raises."""
    raise asyncio.CancelledError


@job(retention=1)
async def briefly_kept() -> int:
    """Be gone soon."""
    return 1


@job
async def text_of(length: int) -> str:
    """Return a text."""
    return "x" * length


@job
async def infinity() -> float:
    """Return no JSON number."""
    return float("inf")


@job
async def typed(count: int, names: list[str], factor: float = 2.0) -> dict[str, float]:
    """Multiply."""
    return dict.fromkeys(names, count * factor)
