"""Tools whose results are kept; each counts its runs in a file, by which tests of several replicas see them."""

import asyncio
import os
from pathlib import Path
from typing import Any

from fastmcp.exceptions import ToolError
from fastmcp.tools import ToolResult, tool
from fastmcp.utilities.types import Image
from pydantic import BaseModel


class Report(BaseModel):
    """A result with a type of its own."""

    number: int
    words: list[str]


def _runs(mark: str) -> int:
    """Note a run; returns how many there have been."""
    with Path(os.environ["RUNS"]).open("a") as file:
        file.write(f"{mark}\n")
    return Path(os.environ["RUNS"]).read_text().split().count(mark)


@tool(meta={"cache": {"ttl": 60, "scope": "public"}})
async def public(mark: str, number: int = 1, seconds: float = 0.0) -> int:
    """Which run this is."""
    run = _runs(mark)
    await asyncio.sleep(seconds)
    return run


@tool(meta={"cache": {"ttl": 60}})
def own(mark: str) -> int:
    """Which run this is, for each caller."""
    return _runs(mark)


@tool(meta={"cache": {"ttl": 0.2, "scope": "public", "stale": 60}})
async def stale(mark: str, fail_from: int = 0) -> int:
    """Which run this is; renewed behind its callers' backs."""
    run = _runs(mark)
    if fail_from and run >= fail_from:
        raise ToolError("no more")
    return run


@tool(meta={"cache": {"ttl": 60, "scope": "public"}})
async def fails(mark: str, seconds: float = 0.0) -> int:
    """Fail, and say which run it was."""
    run = _runs(mark)
    await asyncio.sleep(seconds)
    raise ToolError(f"run {run}")


@tool(meta={"cache": {"ttl": 60, "scope": "public"}})
async def exits(mark: str) -> int:
    """Try to end the process."""
    _runs(mark)
    await asyncio.sleep(0.05)
    raise SystemExit(3)


@tool(meta={"cache": {"ttl": 60, "scope": "public"}})
async def report(mark: str) -> Report:
    """Which run this is, in a model."""
    return Report(number=_runs(mark), words=["ä", "\u2028"])


@tool(meta={"cache": {"ttl": 60, "scope": "public"}})
async def replies(mark: str) -> ToolResult:
    """Which run this is, as a reply, which may be an error."""
    return ToolResult(content=str(_runs(mark)))


@tool(meta={"cache": {"ttl": 60, "scope": "public"}})
async def picture(mark: str) -> Any:
    """An image, which isn't kept."""
    _runs(mark)
    return Image(data=b"png", format="png")


@tool(meta={"cache": {"ttl": 60, "scope": "public"}}, timeout=0.3)
async def slow(mark: str) -> int:
    """Take too long."""
    _runs(mark)
    await asyncio.sleep(30)
    return 0


@tool(meta={"cache": {"ttl": 60, "scope": "public"}})
async def long_text(mark: str, length: int) -> str:
    """Some text."""
    return f"{_runs(mark)} " + "x" * length


@tool
def runs(mark: str) -> int:
    """How many runs there have been."""
    return Path(os.environ["RUNS"]).read_text().split().count(mark)
