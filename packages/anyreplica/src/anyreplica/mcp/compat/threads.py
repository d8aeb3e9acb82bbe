"""The threads in which the calls of one plain `def` function run.

anyio's `to_thread.run_sync` takes five times as much CPU time for a short function when many calls are in flight. Like
there, the function may use `anyio.from_thread`.
"""

import asyncio
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from anyio._backends._asyncio import AsyncIOBackend, CancelScope
from anyio._core._eventloop import claim_worker_thread, threadlocals

_IDLE_SECONDS = 10.0
"""Time without a call after which a thread ends."""


@dataclass(slots=True)
class _Run:
    """One run of the function in a thread."""

    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    context: Context
    fn: Callable[[], Any]
    scope: CancelScope


class Threads:
    """At most `most` threads. A thread starts when a call finds no idle one. Further calls wait.

    All methods belong to the thread of the event loop, except those that say something else.

    Args:
        idle_seconds: time without a call after which a thread ends, in seconds.
    """

    def __init__(self, most: int, *, idle_seconds: float = _IDLE_SECONDS) -> None:
        self._most = most
        self._idle_seconds = idle_seconds
        self._threads = 0
        self._unfinished = 0
        """Number of runs that wait or are in a thread."""
        self._runs: SimpleQueue[_Run | None] = SimpleQueue()

    async def run(self, fn: Callable[[], Any]) -> Any:
        """Run a function in a thread, with the current context variables, and return its result.

        Python cannot stop a thread. If the call is cancelled, the function runs on, unless it is still waiting.
        """
        loop = asyncio.get_running_loop()
        run = _Run(loop, loop.create_future(), copy_context(), fn, CancelScope())
        self._unfinished += 1
        self._runs.put(run)
        if self._threads < min(self._unfinished, self._most):
            self._threads += 1
            threading.Thread(target=self._work, args=(loop,), name="anyreplica worker thread", daemon=True).start()
        try:
            return await run.future
        except asyncio.CancelledError:
            run.scope.cancel()  # `anyio.from_thread.check_cancelled` in the function then raises
            # A run that waits stays in the queue until a thread skips it. It must not keep the arguments of the call.
            run.context, run.fn = Context(), _do_nothing
            raise

    def _finish(self, run: _Run, result: Any, error: BaseException | None) -> None:
        self._unfinished -= 1
        if run.future.done():  # the call was cancelled
            return
        if error is None:
            run.future.set_result(result)
        elif isinstance(error, StopIteration):  # asyncio does not let a future raise it
            run.future.set_exception(RuntimeError("the function raised StopIteration"))
        else:
            run.future.set_exception(error)

    def _retire(self) -> None:
        """Let one idle thread end, if no call needs it."""
        if self._unfinished < self._threads:
            self._threads -= 1
            self._runs.put(None)

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run functions until the thread is idle for some time. (In a thread of its own.)"""
        with claim_worker_thread(AsyncIOBackend, loop):
            while True:
                try:
                    run = self._runs.get(timeout=self._idle_seconds)
                except Empty:
                    if not _tell(loop, self._retire):
                        return
                    continue
                if run is None:
                    return
                self._run(run)
                del run  # otherwise an idle thread would keep the result

    def _run(self, run: _Run) -> None:
        """Run one function. (In a thread.)"""
        result, error = None, None
        if not run.future.cancelled():
            threadlocals.current_cancel_scope = run.scope
            try:
                result = run.context.run(run.fn)
            except BaseException as raised:  # noqa: BLE001  # the call raises it
                error = raised
            finally:
                del threadlocals.current_cancel_scope
        if not _tell(run.loop, self._finish, run, result, error):
            self._unfinished -= 1


def _do_nothing() -> None:
    """Stand for the function of a cancelled run. A thread may just have begun to run it."""


def _tell(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *arguments: Any) -> bool:
    """Call a function in the thread of the event loop. Return False if the loop is closed."""
    try:
        loop.call_soon_threadsafe(function, *arguments)
    except RuntimeError:
        return False
    return True
