"""A separate process for work that may never end.

A regular expression may run forever, and an expression may double its result with each step. In the process of the
replica, nothing could stop such work or limit its memory. The separate process has limits for CPU time and memory. It
gets no environment variables and can't open files or connections. If it fails, only this call gets an error.
"""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from fastmcp.exceptions import ToolError
from pydantic_core import from_json, to_json

SECONDS = 2
"""Limit of CPU time for one task, in seconds."""

_AT_MOST = 10.0
"""Limit of real time for one task, in seconds; it is longer, because the machine may be busy."""

_AT_ONCE = 2
_ADVICE = "use less data, or a simpler expression or schema."
_SCRIPT = Path(__file__).with_name("worker.py")
_places: tuple[asyncio.AbstractEventLoop, asyncio.Semaphore] | None = None


async def work(task: str, **given: Any) -> Any:
    """Run one of the tasks of `worker.py` and return its result.

    Raises:
        ToolError: The task was refused, or needed too much time or memory.
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
            raise ToolError(f"The task took longer than {_AT_MOST:g} s; {_ADVICE}") from None
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await asyncio.shield(process.wait())
    if process.returncode != 0:
        raise ToolError(f"The task needed too much time or memory; {_ADVICE}")
    reply = from_json(written)
    if "refused" in reply:
        raise ToolError(reply["refused"])
    return reply["result"]


def _free_place() -> asyncio.Semaphore:
    """Return the semaphore of the running event loop; it limits the number of processes."""
    global _places  # noqa: PLW0603
    loop = asyncio.get_running_loop()
    if _places is None or _places[0] is not loop:
        _places = loop, asyncio.Semaphore(_AT_ONCE)
    return _places[1]
