"""The event loop of a replica, and what differs from that of asyncio: tasks, lookups of host names, and callbacks.

Tasks that run in the background during a block are here, too.
"""

import asyncio
import logging
import socket
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, suppress
from contextvars import Context
from typing import Any

from fastmcp.server.dependencies import fastmcp_request_ctx

logger = logging.getLogger(__name__)


class _Ready(deque[asyncio.Handle]):
    """The callbacks that are ready.

    A turn of asyncio's loop counts them, and then takes as many. If one of them calls `nest_asyncio.apply()` and begins
    a loop inside of this turn, the inner loop takes the others, and the turn would end the process with an IndexError.
    So an empty queue gives the turn a callback that does nothing.
    """

    def __init__(self, nothing: asyncio.Handle) -> None:
        super().__init__()
        self._nothing = nothing

    def popleft(self) -> asyncio.Handle:
        return super().popleft() if self else self._nothing


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a new loop for EVENT_LOOP=asyncio. A tool may patch it while it runs, for example with `nest_asyncio`."""
    loop = asyncio.SelectorEventLoop()
    nothing = asyncio.Handle(print, (), loop)
    nothing.cancel()
    loop._ready = _Ready(nothing)  # type: ignore[attr-defined]  # noqa: SLF001
    return loop


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


def stop_exits(loop: asyncio.AbstractEventLoop) -> None:
    """Install a task factory, so that every task that a component starts from now on is `ExitProof`.

    SystemExit and KeyboardInterrupt in *any* task leave the event loop of asyncio. So `sys.exit()` in a child task of a
    tool's TaskGroup would stop the server. `ExitProof` turns them into an ordinary exception of that task.

    The tasks of the server itself have no wrapper. The server has one task per request, and the wrapper would take as
    much time as parsing the request.
    """

    def factory(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
        within_component = fastmcp_request_ctx.get() is not None
        return asyncio.Task(ExitProof(coro) if within_component else coro, loop=loop, **options)

    loop.set_task_factory(factory)


def start_exit_proof(coro: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Start a task that is `ExitProof`."""
    return asyncio.Task(ExitProof(coro), loop=asyncio.get_running_loop())


def hide_late_lookups(loop: asyncio.AbstractEventLoop) -> None:
    """From now on, a failed lookup of a host name that nobody waits for writes one line for debugging, no traceback.

    If a connection is cancelled, for example by a time limit, uvloop does not cancel the lookup of the host's name.
    The lookup can fail later, and nobody waits for its result. While a Redis and the name server are slow, each
    attempt to connect would write such a traceback. The caller has already logged that it gave up.
    """
    loop.set_exception_handler(_handle)


def _handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    if isinstance(error, socket.gaierror) and not isinstance(context.get("future"), asyncio.Task):
        logger.debug("A host name was not found, and nobody waits for it: %s", error)
    else:
        loop.default_exception_handler(context)


# A task that runs its coroutine at once, up to its first wait, with `eager_start=True`. Most tasks never wait. Before
# Python 3.12, the coroutine begins in the next turn of the event loop. The task does not use the task factory of the
# loop, because that factory is for the tasks of components (see `stop_exits`). A `partial` that adds `eager_start`
# would take 1,000 more instructions per task.
if sys.version_info >= (3, 12):
    EagerTask: Callable[..., asyncio.Task[Any]] = asyncio.Task
else:

    def EagerTask(  # noqa: N802  # stands for a class
        coro: Coroutine[Any, Any, Any],
        *,
        loop: asyncio.AbstractEventLoop,
        context: Context | None = None,
        eager_start: bool,  # noqa: ARG001  # Python 3.11 has no such argument
    ) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=loop, context=context)


@asynccontextmanager
async def background_task(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run `work` as a task inside the block. At the end of the block, cancel the task and wait for its end."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
