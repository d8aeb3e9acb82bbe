"""The processes that generate load: their start, their end and their combined result."""

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from typing import Any

from anyreplica.load.latency import Samples, merged
from anyreplica.load.options import Options
from anyreplica.load.watch import Generator, generator
from anyreplica.load.worker import LiveTick, Part, work

_LOOK_SECONDS = 0.2
"""Time after which a Ctrl-C is noticed at the latest, in seconds."""


class WorkerError(Exception):
    """A process of the load generator ended without a result; `str()` gives its traceback or the reason."""


@dataclass(frozen=True)
class Measured:
    """The combined result of all processes."""

    samples: Samples
    begun: int
    """How many times clients began the scenario."""
    elapsed: float
    """Duration of the run, in seconds."""
    connects: list[float]
    """Durations to make each connection, in seconds."""
    generator: Generator
    interrupted: bool
    """Whether Ctrl-C ended the run."""


def measure(options: Options, addresses: list[str], report: Callable[[LiveTick], None]) -> Measured:
    """Generate the load.

    Args:
        options: The options of the run.
        addresses: The server's addresses.
        report: Called with the ticks of each process, four times per second.

    Raises:
        WorkerError: A process failed.
    """
    context = multiprocessing.get_context("spawn")
    pipes: list[Pipe] = []
    processes = []
    for part in range(options.processes):
        ours, theirs = context.Pipe()
        process = context.Process(target=work, args=(theirs, options, addresses, part), daemon=True)
        process.start()
        theirs.close()
        pipes.append(ours)
        processes.append(process)
    try:
        for pipe in pipes:
            _received(pipe)
        for pipe in pipes:
            pipe.send("go")
        parts, interrupted = _collect(pipes, report)
    finally:
        for pipe in pipes:
            pipe.close()
        for process in processes:
            process.terminate()
            process.join()
    return Measured(
        samples=merged([part.samples for part in parts]),
        begun=sum(part.begun for part in parts),
        elapsed=max(part.elapsed for part in parts),
        connects=[seconds for part in parts for seconds in part.connects],
        generator=generator([part.watch for part in parts], [late for part in parts for late in part.late]),
        interrupted=interrupted,
    )


def _collect(pipes: list[Pipe], report: Callable[[LiveTick], None]) -> tuple[list[Part], bool]:
    parts: dict[Pipe, Part] = {}
    told = False
    with _noted_interrupts() as interrupts:
        while len(parts) < len(pipes):
            for pipe in wait([pipe for pipe in pipes if pipe not in parts], _LOOK_SECONDS):
                message = _received(pipe)  # type: ignore[arg-type]
                if isinstance(message, Part):
                    parts[pipe] = message  # type: ignore[index]
                else:
                    report(message)
            if len(interrupts) > 1:  # The second Ctrl-C ends the program at once.
                raise KeyboardInterrupt
            if interrupts and not told:
                told = True
                for pipe in pipes:
                    if pipe not in parts:
                        with suppress(OSError):  # The process has just ended.
                            pipe.send("stop")
    return [parts[pipe] for pipe in pipes], bool(interrupts)


@contextmanager
def _noted_interrupts() -> Iterator[list[int]]:
    """Inside the `with` block, Ctrl-C is only noted: an exception while a message is read would lose the message."""
    noted: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: noted.append(number))
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)


def _received(pipe: Pipe) -> Any:
    try:
        message = pipe.recv()
    except (EOFError, OSError):
        raise WorkerError("The process ended before it sent a result.") from None
    if isinstance(message, str) and message != "ready":
        raise WorkerError(message)
    return message
