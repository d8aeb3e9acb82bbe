"""One run for all who wait for the same result."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any

from mcp_swarm.components.outcome import Outcome
from mcp_swarm.process import eager_task


class Flights:
    """What is being made, by key."""

    def __init__(self) -> None:
        self._tasks: dict[Hashable, asyncio.Task[Outcome]] = {}

    def of(self, key: Hashable) -> asyncio.Task[Outcome] | None:
        """What makes the result of a key, if anything does."""
        return self._tasks.get(key)

    def start(self, key: Hashable, make: Callable[[], Awaitable[Any]]) -> asyncio.Task[Outcome]:
        """Make a result, in a task that goes on when whoever asked first has gone."""
        task = eager_task.start(_outcome(make), asyncio.get_running_loop())
        if not task.done():
            self._tasks[key] = task
            task.add_done_callback(lambda _: self._tasks.pop(key))
        return task


async def _outcome(make: Callable[[], Awaitable[Any]]) -> Outcome:
    try:
        return Outcome(await make())
    except BaseException as error:  # noqa: BLE001  # SystemExit in a task would end the process
        return Outcome(error=error)
