"""Tests of the threads in which the calls of one function run."""

import asyncio
import gc
import threading
import weakref
from contextvars import ContextVar
from functools import partial

import pytest
from anyio import from_thread

from anyreplica.mcp.compat.threads import Threads
from conftest import until

pytestmark = pytest.mark.anyio


async def test_a_function_runs_in_a_thread_with_the_context_of_its_call() -> None:
    """The function has the context variables of its call, and its result or exception reaches the call."""
    variable: ContextVar[int] = ContextVar("variable")

    def function() -> tuple[bool, int]:
        return threading.current_thread() is threading.main_thread(), variable.get()

    def failing() -> None:
        raise LookupError("no")

    def stopping() -> None:
        raise StopIteration

    pool = Threads(2)
    variable.set(7)
    assert await pool.run(function) == (False, 7)
    with pytest.raises(LookupError, match="no"):
        await pool.run(failing)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await pool.run(stopping)


async def test_there_are_at_most_as_many_threads_as_allowed() -> None:
    """Further calls wait for a thread. A call that finds an idle thread starts no new one."""
    running = most = 0
    lock, seen = threading.Lock(), set[int]()
    go_on = threading.Event()

    def function() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            seen.add(threading.get_ident())
        go_on.wait(10)
        with lock:
            running -= 1

    pool = Threads(3)
    calls = [asyncio.ensure_future(pool.run(function)) for _ in range(20)]
    await asyncio.to_thread(until, lambda: running == 3, "three threads run")
    go_on.set()
    await asyncio.gather(*calls)
    for _ in range(50):
        await pool.run(function)
    assert (most, len(seen)) == (3, 3)


async def test_a_cancelled_call_that_waits_never_runs() -> None:
    """A cancelled call leaves its thread to the function until it ends. A call that waits for a thread does not run."""
    go_on, ran = threading.Event(), []

    pool = Threads(1)
    first = asyncio.ensure_future(pool.run(lambda: go_on.wait(10)))
    second = asyncio.ensure_future(pool.run(lambda: ran.append(2)))
    await asyncio.sleep(0)
    first.cancel()
    second.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    third = asyncio.ensure_future(pool.run(lambda: ran.append(3)))
    await asyncio.sleep(0)
    go_on.set()
    await third
    assert ran == [3]


async def test_a_cancelled_call_that_waits_keeps_nothing() -> None:
    """The arguments and the context variables of the call are freed while all threads are still busy."""

    class Large:
        """Something that a weak reference can refer to."""

    variable: ContextVar[Large] = ContextVar("variable")
    kept = list[weakref.ref[Large]]()

    async def call() -> None:
        argument, value = Large(), Large()
        kept.extend((weakref.ref(argument), weakref.ref(value)))
        variable.set(value)
        await pool.run(partial(isinstance, argument, Large))

    pool, go_on = Threads(1), threading.Event()
    first = asyncio.ensure_future(pool.run(lambda: go_on.wait(60)))
    second = asyncio.ensure_future(call())
    await asyncio.to_thread(until, lambda: len(kept) == 2, "the second call waits")
    second.cancel()
    await asyncio.wait([second])
    del second
    gc.collect()
    assert [each() for each in kept] == [None, None]
    go_on.set()
    assert await first
    assert await pool.run(lambda: 5) == 5


async def test_a_function_may_use_anyio_from_its_thread() -> None:
    """`from_thread.run` reaches the event loop, and `check_cancelled` raises after the cancellation of the call."""
    started, cancelled = threading.Event(), threading.Event()
    noticed: list[bool] = []

    async def on_the_loop() -> str:
        return threading.current_thread().name

    def function() -> str:
        return from_thread.run(on_the_loop)

    def long() -> None:
        started.set()
        cancelled.wait(10)
        try:
            from_thread.check_cancelled()
        except BaseException as error:
            noticed.append(isinstance(error, asyncio.CancelledError))
            raise

    pool = Threads(1)
    assert await pool.run(function) == threading.main_thread().name
    call = asyncio.ensure_future(pool.run(long))
    await asyncio.to_thread(started.wait, 10)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    cancelled.set()
    await asyncio.to_thread(until, lambda: noticed == [True], "the function notices")
    assert noticed == [True]


async def test_an_idle_thread_ends_and_keeps_no_result() -> None:
    """A thread without calls ends after some time. Before that, it does not keep the last result."""

    class Result:
        """Something that a weak reference can refer to."""

    pool = Threads(2, idle_seconds=0.2)
    thread = await pool.run(threading.current_thread)
    result = weakref.ref(await pool.run(Result))
    await asyncio.to_thread(until, lambda: result() is None, "the result is gone")
    await asyncio.to_thread(until, lambda: not thread.is_alive(), "the thread ends")
    assert await pool.run(lambda: 5) == 5


def test_a_thread_outlives_its_loop() -> None:
    """A function that ends after its event loop raises no error."""
    go_on, ended = threading.Event(), threading.Event()

    def function() -> None:
        go_on.wait(10)
        ended.set()

    pool = Threads(1)

    async def main() -> None:
        call = asyncio.ensure_future(pool.run(function))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

    asyncio.run(main())
    go_on.set()
    assert ended.wait(10)
