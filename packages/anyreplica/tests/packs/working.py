"""Jobs that take time, fail or end their worker.

The argument `mark` names a file to which a job adds a line for each event of its body.
"""

import asyncio
import os
import sys
from pathlib import Path

from fastmcp.exceptions import ToolError

from anyreplica import Progress, ResourceUpdated, job, publish


def _note(mark: str, word: str) -> int:
    """Write a line and return the number of lines with this word."""
    path = Path(mark)
    with path.open("a") as lines:
        lines.write(f"{word}\n")
    return path.read_text().split().count(word)


@job
async def nap(seconds: float, mark: str, progress: Progress) -> str:
    """Sleep in a hundred steps and report the progress."""
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
    """Sleep without a progress report."""
    _note(mark, "begun")
    try:
        await asyncio.sleep(60)
    finally:
        _note(mark, "cancelled")


@job
async def unsayable() -> None:
    """Fail with a long message that UTF-8 cannot encode."""
    raise ToolError("no file \udcff" + 2000 * "x")


@job(timeout=0.5)
async def overlong(mark: str) -> str:
    """Take longer than the job's timeout."""
    try:
        await asyncio.sleep(60)
    finally:
        _note(mark, "stopped")
    return "unreachable"


@job(retries=2)
async def fails_at_first(times: int, mark: str) -> int:
    """Raise an error in the first `times` runs."""
    begun = _note(mark, "begun")
    if begun <= times:
        raise ValueError("the secret is hunter2")
    return begun


@job
async def tells(why: str) -> str:
    """Fail with the given message."""
    raise ToolError(why)


@job
async def kills_its_worker(times: int, mark: str) -> int:
    """Kill the worker's process in the first `times` runs, like a crash."""
    begun = _note(mark, "begun")
    if begun <= times:
        os._exit(137)
    return begun


@job
async def exits() -> str:
    """Try to exit the worker's process."""
    sys.exit(3)


@job
async def cancels_itself() -> str:
    """Raise CancelledError."""
    raise asyncio.CancelledError


@job(retention=1)
async def briefly_kept() -> int:
    """Return a result that expires after one second."""
    return 1


@job
async def text_of(length: int) -> str:
    """Return a text of the given length."""
    return "x" * length


@job
async def infinity() -> float:
    """Return a number that JSON cannot represent."""
    return float("inf")


@job
async def typed(count: int, names: list[str], factor: float = 2.0) -> dict[str, float]:
    """Return the product of a number and a factor for each name."""
    return dict.fromkeys(names, count * factor)


@job
async def announces(uri: str) -> None:
    """Announce the update of a resource."""
    await publish(ResourceUpdated(uri=uri))
