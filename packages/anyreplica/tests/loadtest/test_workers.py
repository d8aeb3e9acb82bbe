"""The processes that generate load, and the process that collects their results."""

import multiprocessing
import os
import signal
from multiprocessing.connection import Connection
from typing import Any

import pytest

from anyreplica.load.workers import _collect


class Interrupted:
    """The reading end of a pipe. Ctrl-C arrives while the first messages are read."""

    def __init__(self, pipe: Connection, interrupts: int) -> None:
        self._pipe = pipe
        self._left = interrupts
        self.fileno = pipe.fileno
        self.send = pipe.send

    def recv(self) -> Any:
        """Read a message, and send SIGINT to this process before the message is returned."""
        message = self._pipe.recv()
        if self._left:
            self._left -= 1
            os.kill(os.getpid(), signal.SIGINT)
        return message


def collect(pipe: Connection, interrupts: int, report: Any) -> Any:
    """Collect the messages of one process."""
    return _collect([Interrupted(pipe, interrupts)], report)  # type: ignore[list-item]


def test_an_interrupt_loses_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while a message is read stops the run, and all messages arrive."""
    monkeypatch.setattr("anyreplica.load.workers.Part", float)  # a result is a float here
    ours, theirs = multiprocessing.Pipe()
    reported: list[object] = []
    theirs.send(1)
    theirs.send(2)

    def report(message: object) -> None:
        reported.append(message)
        if message == 2:
            theirs.send(0.5)

    parts, interrupted = collect(ours, 1, report)
    assert (reported, parts, interrupted) == ([1, 2], [0.5], True)
    assert theirs.recv() == "stop"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_interrupt_ends_the_program() -> None:
    """The second Ctrl-C does not wait for the result."""
    ours, theirs = multiprocessing.Pipe()
    theirs.send(1)
    theirs.send(2)
    with pytest.raises(KeyboardInterrupt):
        collect(ours, 2, lambda _: None)
