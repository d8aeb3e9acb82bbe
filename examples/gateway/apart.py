"""Work that a caller can make endless, in a process of its own.

A regular expression, or an expression that doubles its result with each of its steps, can't be stopped within a
process, nor kept from all of its memory. Here it has its time and its memory, no variables of the environment, and no
way to open a file or a connection; whatever happens to it happens to nothing else.
"""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from fastmcp.exceptions import ToolError
from pydantic_core import from_json, to_json

SECONDS = 2
"""Of a processor's time, for one piece of work."""

_AT_MOST = 10.0
"""Seconds that it may take on a machine that is busy with other things."""

_AT_ONCE = 2
_SCRIPT = Path(__file__).with_name("worker.py")
_places: tuple[asyncio.AbstractEventLoop, asyncio.Semaphore] | None = None


async def work(task: str, **given: Any) -> Any:
    """Do a piece of work that `worker.py` knows.

    Raises:
        ToolError: it was refused, or took too much time or memory.
    """
    async with _free_place():
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", str(_SCRIPT), str(SECONDS), task),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={},
        )
        try:
            async with asyncio.timeout(_AT_MOST):
                written, _ = await process.communicate(to_json(given))
        except TimeoutError:
            raise ToolError(f"that took longer than {_AT_MOST:g} s; ask for less") from None
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await asyncio.shield(process.wait())
    if process.returncode != 0:
        raise ToolError("that took too much time or memory; ask for less")
    reply = from_json(written)
    if "refused" in reply:
        raise ToolError(reply["refused"])
    return reply["result"]


def _free_place() -> asyncio.Semaphore:
    """One for the running loop."""
    global _places  # noqa: PLW0603
    loop = asyncio.get_running_loop()
    if _places is None or _places[0] is not loop:
        _places = loop, asyncio.Semaphore(_AT_ONCE)
    return _places[1]
