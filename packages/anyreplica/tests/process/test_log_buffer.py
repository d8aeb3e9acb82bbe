"""Tests of the log buffer, which writes lines together, in order and without loss."""

import asyncio
import io
import logging
import sys

import pytest

from anyreplica.process.logs import LogBuffer
from conftest import run

pytestmark = pytest.mark.anyio


def redirected(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Replace stderr and return the replacement. In a fixture, pytest would replace it again."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def test_without_an_event_loop_lines_are_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an event loop, as on the command line and in threads, the buffer writes a line at once."""
    stream = redirected(monkeypatch)
    buffer = LogBuffer()
    buffer.add("one")
    assert stream.getvalue() == "one\n"


async def test_within_an_event_loop_lines_are_written_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within an event loop the buffer writes lines together and in order. It encodes some lines only when it writes."""
    stream = redirected(monkeypatch)
    buffer = LogBuffer()
    buffer.add("one")
    buffer.add((str.encode, "two"))
    buffer.add("three")
    assert stream.getvalue() == ""
    while not stream.getvalue():  # noqa: ASYNC110  # no event reports it
        await asyncio.sleep(0.001)
    assert stream.getvalue() == "one\ntwo\nthree\n"


async def test_a_warning_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The buffer writes a warning and all lines before it at once, because the process may crash next."""
    stream = redirected(monkeypatch)
    handler = LogBuffer()
    handler.emit(logging.makeLogRecord({"msg": "before", "levelno": logging.INFO}))
    handler.emit(logging.makeLogRecord({"msg": "watch out", "levelno": logging.WARNING}))
    assert stream.getvalue() == "before\nwatch out\n"


async def test_threads_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The buffer loses no line of a thread while the event loop flushes."""
    stream = redirected(monkeypatch)
    buffer = LogBuffer()

    def write(name: int) -> None:
        for number in range(1000):
            buffer.add(f"{name} {number}")

    buffer.add("start")
    await asyncio.gather(*(asyncio.to_thread(write, name) for name in range(4)))
    buffer.flush()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 4001
    for name in range(4):
        assert [line for line in lines if line.startswith(f"{name} ")] == [f"{name} {number}" for number in range(1000)]


@pytest.mark.servers
def test_the_buffer_is_written_at_exit() -> None:
    """The buffer writes its lines at exit if the process ends before the next flush (50 ms)."""
    adds = "import asyncio\nfrom anyreplica.process.logs import LogBuffer\nbuffer = LogBuffer()\n"
    done = run(sys.executable, "-c", f"{adds}async def main(): buffer.add('last words')\nasyncio.run(main())\n")
    assert (done.returncode, done.stderr) == (0, "last words\n")


def test_a_closed_stream_causes_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The buffer ignores a stream that it cannot write, such as a closed terminal or a full disk."""
    stream = redirected(monkeypatch)
    stream.close()
    LogBuffer().add("lost")


@pytest.mark.servers
@pytest.mark.parametrize(("encoding", "written"), [("utf-8", "✓"), ("ascii", "\\u2713"), ("latin-1", "\\u2713")])
def test_a_character_that_stderr_does_not_have_is_escaped(encoding: str, written: str) -> None:
    """A line with a character that the encoding of stderr does not have is written, with this character escaped."""
    code = "from anyreplica.process.logs import LogBuffer\nLogBuffer().add('\\u2713 200')\n"
    done = run(sys.executable, "-c", code, PYTHONIOENCODING=f"{encoding}:strict")
    assert (done.returncode, done.stderr) == (0, f"{written} 200\n")
