"""A task factory that prevents a task of a component from ending the replica.

SystemExit and KeyboardInterrupt in *any* task leave the event loop of asyncio. So `sys.exit()` in a child task of a
tool's TaskGroup would stop the server. This task factory turns them into an ordinary exception of that task.
"""

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any

from fastmcp.server.dependencies import fastmcp_request_ctx


class TaskExit(Exception):
    """A task raised SystemExit or KeyboardInterrupt."""


class ExitProof(Coroutine[Any, Any, Any]):
    """A coroutine that wraps another one and turns SystemExit and KeyboardInterrupt into `TaskExit`."""

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
            # The traceback of the exception refers to this frame. A reference from the frame to the exception would
            # keep both, and the whole request, in memory.
            del error

    def close(self) -> None:
        self.held.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield from self.held.__await__())  # type: ignore[union-attr]

    def __getattr__(self, name: str) -> Any:
        """Return attributes such as cr_frame and cr_running, which anyio and debuggers read."""
        return getattr(self.held, name)


def install(loop: asyncio.AbstractEventLoop) -> None:
    """Install the task factory, so that every task that a component starts from now on is `ExitProof`.

    The tasks of the server itself have no wrapper. The server has one task per request, and the wrapper would take as
    much time as parsing the request.
    """

    def factory(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
        within_component = fastmcp_request_ctx.get() is not None
        return asyncio.Task(ExitProof(coro) if within_component else coro, loop=loop, **options)

    loop.set_task_factory(factory)


def start(coro: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    return asyncio.Task(ExitProof(coro), loop=asyncio.get_running_loop())
