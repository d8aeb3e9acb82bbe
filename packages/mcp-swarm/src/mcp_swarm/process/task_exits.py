"""A task that a component starts must not end the replica.

asyncio lets SystemExit and KeyboardInterrupt of *any* task out of the event loop, so `sys.exit()` in a child of a
tool's TaskGroup would stop the server. This task factory turns them into an ordinary exception of that task.
"""

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any

from fastmcp.server.dependencies import fastmcp_request_ctx


class TaskExit(Exception):
    """A task raised what is meant to end a process."""


class ExitProof(Coroutine[Any, Any, Any]):
    """A coroutine that behaves as the one it holds, but for SystemExit and KeyboardInterrupt."""

    def __init__(self, held: Coroutine[Any, Any, Any] | Generator[Any, Any, Any]) -> None:
        self.held = held

    def send(self, value: Any) -> Any:
        try:
            return self.held.send(value)
        except (SystemExit, KeyboardInterrupt) as error:
            raise TaskExit(f"a task raised {type(error).__name__}") from error

    def throw(self, *error: Any) -> Any:
        try:
            return self.held.throw(*error)
        except (SystemExit, KeyboardInterrupt) as exit_error:
            raise TaskExit(f"a task raised {type(exit_error).__name__}") from exit_error
        finally:
            # The exception's traceback has this frame. The two would keep each other, and the whole request.
            del error

    def close(self) -> None:
        self.held.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield from self.held.__await__())  # type: ignore[union-attr]

    def __getattr__(self, name: str) -> Any:
        """cr_frame, cr_running and their kind, which anyio and debuggers look at."""
        return getattr(self.held, name)


def install(loop: asyncio.AbstractEventLoop) -> None:
    """Make every task exit-proof that a component starts from now on.

    The server's own tasks, of which there is one for each request, go without: the wrapper would cost as much as
    parsing the request does.
    """

    def factory(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
        within_component = fastmcp_request_ctx.get() is not None
        return asyncio.Task(ExitProof(coro) if within_component else coro, loop=loop, **options)

    loop.set_task_factory(factory)


def start(coro: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    return asyncio.Task(ExitProof(coro), loop=asyncio.get_running_loop())
