"""Log lines are written together, in order, and none is lost."""

import asyncio
import io
import logging
import subprocess
import sys
import threading

import pytest

from conftest import ROOT
from mcp_swarm.process.log_buffer import LogBuffer


def redirected(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What stands for stderr from now on."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def test_without_an_event_loop_lines_are_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command line's messages, and threads'."""
    stream = redirected(monkeypatch)
    buffer = LogBuffer()
    buffer.add("one")
    assert stream.getvalue() == "one\n"


def test_within_one_they_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """And keep their order, formatted early or late."""
    stream = redirected(monkeypatch)
    buffer = LogBuffer()

    async def scenario() -> str:
        buffer.add("one")
        buffer.add((str.upper, "two"))
        buffer.add("three")
        early = stream.getvalue()
        while not stream.getvalue():  # noqa: ASYNC110  # nothing tells of it
            await asyncio.sleep(0.001)
        return early

    assert asyncio.run(scenario()) == ""
    assert stream.getvalue() == "one\nTWO\nthree\n"


def test_a_warning_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do the lines ahead of it: what led to a crash must be in the log."""
    stream = redirected(monkeypatch)
    handler = LogBuffer()

    async def scenario() -> None:
        handler.emit(logging.makeLogRecord({"msg": "before", "levelno": logging.INFO}))
        handler.emit(logging.makeLogRecord({"msg": "watch out", "levelno": logging.WARNING}))
        assert stream.getvalue() == "before\nwatch out\n"

    asyncio.run(scenario())


def test_threads_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the event loop that flushes."""
    stream = redirected(monkeypatch)
    buffer = LogBuffer()

    def write(name: int) -> None:
        for number in range(1000):
            buffer.add(f"{name} {number}")

    async def scenario() -> None:
        threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
        buffer.add("start")
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        buffer.flush()

    asyncio.run(scenario())
    lines = stream.getvalue().splitlines()
    assert len(lines) == 4001
    for name in range(4):
        assert [line for line in lines if line.startswith(f"{name} ")] == [f"{name} {number}" for number in range(1000)]


def test_what_waits_is_written_at_exit() -> None:
    """The process ends within the 50 ms."""
    code = (
        "import asyncio\n"
        "from mcp_swarm.process.log_buffer import LogBuffer\n"
        "buffer = LogBuffer()\n"
        "async def main(): buffer.add('last words')\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == "last words\n"


def test_a_stream_that_takes_nothing_harms_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed terminal, a full disk."""
    stream = redirected(monkeypatch)
    stream.close()
    LogBuffer().add("lost")
