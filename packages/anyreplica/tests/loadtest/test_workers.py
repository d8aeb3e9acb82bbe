"""The processes that generate load, and the process that collects their results."""

import multiprocessing
import os
import signal
from multiprocessing.connection import Connection
from typing import Any
from unittest.mock import Mock

import pytest

from anyreplica.load.workers import _collect


def collect(pipe: Connection, interrupts: int, report: Any) -> Any:
    """Collect the messages of one process. Ctrl-C arrives before each of the first messages is returned."""
    left = iter(range(interrupts))

    def recv() -> Any:
        message = pipe.recv()
        for _ in left:
            os.kill(os.getpid(), signal.SIGINT)
            break
        return message

    return _collect([Mock(fileno=pipe.fileno, send=pipe.send, recv=recv)], report)


def test_an_interrupt_loses_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while a message is read stops the run, and all messages arrive; a second one ends the program."""
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
    ours, theirs = multiprocessing.Pipe()
    theirs.send(1)
    theirs.send(2)
    with pytest.raises(KeyboardInterrupt):
        collect(ours, 2, lambda _: None)
