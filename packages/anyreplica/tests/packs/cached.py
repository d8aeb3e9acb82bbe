"""Cached tools that count their runs in a file, and a tool that returns this count.

Several replicas can share the file. The argument `mark` separates the counts of different tests.
"""

import asyncio
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

from fastmcp.exceptions import ToolError
from fastmcp.tools import ToolResult, tool
from fastmcp.utilities.types import Image
from pydantic import BaseModel

_gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)


class Report(BaseModel):
    """A model as a result."""

    number: int
    words: list[str]


def _runs(mark: str) -> int:
    """Record a run and return the number of runs with this mark."""
    with Path(os.environ["RUNS"]).open("a") as file:
        file.write(f"{mark}\n")
    return Path(os.environ["RUNS"]).read_text().split().count(mark)


@tool(meta={"cache": {"ttl": 60, "scope": "public"}})
async def public(mark: str, number: int = 1, seconds: float = 0.0) -> int:
    """Return the number of this run. All callers share the cached result."""
    run = _runs(mark)
    await asyncio.sleep(seconds)
    return run


@tool(meta={"cache": {"ttl": 60}})
def own(mark: str) -> int:
    """Return the number of this run. Each caller has a separate cached result."""
    return _runs(mark)


@tool(meta={"cache": {"ttl": 0.2, "scope": "public", "stale": 60}})
async def stale(mark: str, fail_from: int = 0) -> int:
    """Return the number of this run. An old result is renewed in the background."""
    run = _runs(mark)
    if fail_from and run >= fail_from:
        raise ToolError("no more")
    return run


@tool(meta={"cache": {"ttl": 60, "scope": "public"}})
async def fails(mark: str, gated: bool = False) -> int:
    """Fail with the number of this run. If it is gated, wait for `open_gate` first."""
    run = _runs(mark)
    if gated:
        await _gates[mark].wait()
    raise ToolError(f"run {run}")


@tool
async def open_gate(mark: str) -> None:
    """Let the gated runs with this mark go on."""
    _gates[mark].set()


@tool(meta={"cache": {"ttl": 60, "scope": "public"}})
async def exits(mark: str) -> int:
    """Try to exit the process."""
    _runs(mark)
    await asyncio.sleep(0.05)
    raise SystemExit(3)


@tool(meta={"cache": {"ttl": 60, "scope": "public"}})
async def report(mark: str) -> Report:
    """Return the number of this run in a model."""
    return Report(number=_runs(mark), words=["ä", "\u2028"])


@tool(meta={"cache": {"ttl": 60, "scope": "public"}})
async def replies(mark: str) -> ToolResult:
    """Return the number of this run as a ToolResult. The cache stores no ToolResult, because it could be an error."""
    return ToolResult(content=str(_runs(mark)))


@tool(meta={"cache": {"ttl": 60, "scope": "public"}})
async def picture(mark: str) -> Any:
    """Return an image, which the cache does not store."""
    _runs(mark)
    return Image(data=b"png", format="png")


@tool(meta={"cache": {"ttl": 60, "scope": "public"}}, timeout=0.3)
async def slow(mark: str) -> int:
    """Take longer than the tool's timeout."""
    _runs(mark)
    await asyncio.sleep(30)
    return 0


@tool(meta={"cache": {"ttl": 60, "scope": "public"}})
async def long_text(mark: str, length: int) -> str:
    """Return a text of the given length."""
    return f"{_runs(mark)} " + "x" * length


@tool
def runs(mark: str) -> int:
    """Return the number of runs."""
    return Path(os.environ["RUNS"]).read_text().split().count(mark)
