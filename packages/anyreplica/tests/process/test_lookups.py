"""Tests of lookups of host names whose caller has given up."""

import asyncio
import contextlib
import gc
import logging
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from anyreplica.process.event_loop import hide_late_lookups

LOST = "replica.invalid"
"""A name that no name server has (RFC 6761, section 6.4)."""


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine on a loop as a replica has it."""

    async def prepared() -> None:
        hide_late_lookups(asyncio.get_running_loop())
        await work()

    uvloop.run(prepared())


def test_a_cancelled_connection_writes_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """uvloop goes on with the lookup, and its failure is one line for debugging."""

    async def give_up() -> None:
        loop = asyncio.get_running_loop()
        connecting = asyncio.ensure_future(loop.create_connection(asyncio.Protocol, LOST, 1))
        await asyncio.sleep(0)  # the lookup has begun
        connecting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await connecting
        async with asyncio.timeout(60):  # a name server that does not answer takes long
            while not caplog.records:  # noqa: ASYNC110  # uvloop tells nobody that the lookup has ended
                await asyncio.sleep(0.01)

    with caplog.at_level(logging.DEBUG, "anyreplica.process.event_loop"):
        run(give_up)
    [record] = caplog.records
    assert (record.levelname, record.exc_info) == ("DEBUG", None)
    assert "nobody waits for it" in record.getMessage()


@pytest.mark.parametrize("error", [ValueError("a mistake"), socket.gaierror(-2, "unknown")])
def test_a_failed_task_keeps_its_traceback(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """A task of an author that fails, and that nobody waits for, is written with its traceback."""

    async def fail() -> None:
        raise error

    async def forget() -> None:
        task = asyncio.ensure_future(fail())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        del task
        gc.collect()

    run(forget)
    [record] = caplog.records
    assert record.levelname == "ERROR"
    assert record.exc_info is not None
    assert record.exc_info[1] is error
