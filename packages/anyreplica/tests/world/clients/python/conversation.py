"""The steps that each framework takes: `python FRAMEWORK.py URL KEY`. Needs nothing but Python.

A script of a framework passes `converse` a function that connects to the server. Each step prints a line of JSON: its
name and its result, or its error. Before a step `call after a kill`, the script prints `kill` and waits for a line.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

Call = Callable[[str, dict[str, Any]], Awaitable[Any]]
"""Calls a tool as an agent does. Returns what the model gets, also if the call failed."""
Connect = Callable[[str, dict[str, str], list[str]], Any]
"""Takes the URL, the headers, and a list for what the server reports. Yields the names of the tools and a `Call`."""

ADA = {"name": "Ada"}
"""The answer of the user whom the server asks."""


def converse(connect: Connect, *, progress: bool = False, asked: bool = False) -> None:
    """Take all steps.

    Args:
        connect: an async context manager.
        progress: whether the framework passes the progress of a call on.
        asked: whether the framework lets a server ask the user.
    """
    asyncio.run(_converse(asynccontextmanager(connect), progress, asked))


async def _converse(connect: Connect, progress: bool, asked: bool) -> None:
    url, key = sys.argv[1:]
    reports: list[str] = []
    async with _open(connect, url, {"Authorization": f"Bearer {key}"}, reports) as (names, call):
        _print("list", " ".join(sorted(names)))
        await _step("call", call("add", {"first": 2, "second": 3}))
        await _step("wrong arguments", call("add", {"first": 2, "second": "three"}))
        if progress:
            await _step("count", call("count", {"steps": 3}))
            for _ in range(100):  # a report may arrive after the result
                if len(reports) < 3:
                    await asyncio.sleep(0.05)
            _print("progress", " ".join(reports))
        if asked:
            await _step("being asked", call("greet", {}))
        for number in range(3):
            _print("kill", "")
            await asyncio.to_thread(sys.stdin.readline)
            await _step("call after a kill", call("add", {"first": number, "second": 1}))
    for name, headers in (("without a key", {}), ("with a wrong key", {"Authorization": "Bearer wrong"})):
        await _step(name, _refused(connect, url, headers))


@asynccontextmanager
async def _open(connect: Connect, *arguments: Any) -> AsyncIterator[Any]:
    try:
        async with connect(*arguments) as found:
            yield found
    except BaseException as error:
        _print("error", _text(error))
        raise


async def _refused(connect: Connect, url: str, headers: dict[str, str]) -> str:
    async with connect(url, headers, []) as (names, _):
        return f"accepted, with {len(names)} tools"


async def _step(name: str, work: Awaitable[Any]) -> None:
    try:
        result = str(await asyncio.wait_for(work, 60))
    except BaseException as error:  # noqa: BLE001  # some frameworks cancel the task that was refused
        result = f"error: {_text(error)}"
    _print(name, result)


def _text(error: BaseException | None) -> str:
    """Return the texts of an error, of those in its group, and of its causes."""
    if error is None:
        return ""
    parts = [f"{type(error).__name__}: {error}", *map(_text, getattr(error, "exceptions", ()))]
    return " | ".join(filter(None, [*parts, _text(error.__cause__)]))


def _print(name: str, result: str) -> None:
    print(json.dumps({"step": name, "result": result}), flush=True)
