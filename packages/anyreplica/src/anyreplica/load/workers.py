"""The processes that generate load: the share of each, their start, and their combined results.

These processes only generate load. Their parent writes to the terminal, so that its output does not slow them down.
"""

import asyncio
import multiprocessing
import signal
import threading
import traceback
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from typing import Any

import uvloop

from anyreplica.load.client import LoadClient, SdkClient
from anyreplica.load.latency import Samples, merged
from anyreplica.load.message import LoadTarget, Writer
from anyreplica.load.options import Options
from anyreplica.load.run import Load, LoadRun, Ramp, Working
from anyreplica.load.scenario import Conversation, Echo, Mix, Scenario, Single
from anyreplica.load.watch import Generator, Watch, generator


def load_of_part(options: Options, addresses: list[str], part: int) -> Load:
    """Return the load of the process with number `part` (from 0) of `options.processes` processes.

    Raises:
        ValueError: The description of the mix is wrong.
    """
    target = LoadTarget.of(options.url)
    sign = options.signer.lines(options.url) if options.signer else None
    count = options.processes
    ramp = options.ramp
    return Load(
        target=target,
        addresses=addresses,
        scenario=scenario_of(options.what, Writer(target, options.headers, sign)),
        families=options.families,
        clients=max(1, _share(options.concurrent, part, count)),
        requests=None if options.requests is None else _share(options.requests, part, count),
        seconds=options.seconds,
        ramp=None if ramp is None else Ramp(ramp.first / count, ramp.last / count, ramp.seconds),
        policy=options.policy,
        patience=options.patience,
    )


def load_of_warm_up(load: Load, seconds: float) -> Load:
    """Return the same load with a time limit in seconds, for the warm-up before the measurement."""
    return replace(load, requests=None, seconds=seconds)


def scenario_of(what: dict[str, Any], writer: Writer) -> Scenario:
    """Return the scenario that clients perform.

    Args:
        what: The description, in the form of `Options.what`.
        writer: Writes the requests.

    Raises:
        ValueError: The description is wrong.
    """
    unknown = what.keys() - {"tool", "method", "args", "mix", "session", "sdk", "weight"}
    if unknown:
        raise ValueError(
            f"An entry of --mix can't have {', '.join(sorted(unknown))}; "
            "the allowed fields are weight, tool or method, args, and session."
        )
    if "mix" in what:
        return Mix([(_weight(entry), scenario_of(entry, writer)) for entry in what["mix"]])
    if what.get("session"):
        return Conversation(writer)
    if "method" in what:
        return Single(writer, str(what["method"]), what.get("args", {}))
    if "tool" in what:
        return Single(writer, "tools/call", {"name": str(what["tool"]), "arguments": what.get("args", {})})
    return Echo(writer)


def _weight(entry: dict[str, Any]) -> float:
    weight = entry.get("weight", 1)
    if not isinstance(weight, int | float) or weight < 0:
        raise ValueError(f"The weight {weight!r} of an entry of --mix is not a number of 0 or more.")
    return float(weight)


def _share(total: int, part: int, count: int) -> int:
    """Return the part of `total` for process `part`. The parts of all `count` processes add up to `total`."""
    return total // count + (part < total % count)


_POLL_SECONDS = 0.2
"""Time after which a Ctrl-C is noticed at the latest, in seconds."""

TICK = 0.25
"""Seconds between two ticks."""


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


@dataclass(frozen=True)
class LiveTick:
    """The results since the last tick."""

    at: float
    """Seconds since the start of the run."""
    seconds: "array[float]"
    """Durations of the successful requests, in seconds."""
    failed: int
    """Number of failed requests."""
    replicas: Counter[str]
    """Number of requests that each replica answered."""


@dataclass(frozen=True)
class Part:
    """The complete result of one process."""

    samples: Samples
    begun: int
    """How many times clients began the scenario."""
    elapsed: float
    """Duration of the run, in seconds."""
    connects: list[float]
    """Durations to make each connection, in seconds."""
    late: list[float]
    """How late free clients (without a request in flight) sent requests, in seconds."""
    watch: Watch


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
    is_told_to_stop = False
    with _noted_interrupts() as interrupts:
        while len(parts) < len(pipes):
            for pipe in wait([pipe for pipe in pipes if pipe not in parts], _POLL_SECONDS):
                message = _received(pipe)  # type: ignore[arg-type]
                if isinstance(message, Part):
                    parts[pipe] = message  # type: ignore[index]
                else:
                    report(message)
            if len(interrupts) > 1:  # The second Ctrl-C ends the program at once.
                raise KeyboardInterrupt
            if interrupts and not is_told_to_stop:
                is_told_to_stop = True
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


def work(pipe: Pipe, options: Options, addresses: list[str], part: int) -> None:
    """Run the process that generates load.

    The process sends "ready", and waits until its parent sends a message. Then it generates load. It sends a `LiveTick`
    every `TICK` seconds, and a `Part` at the end. If another message arrives during the run, the process stops the run.
    If an exception ends the process, it sends the traceback as text.
    """
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches this process, too. Only the parent process handles it.
    try:
        uvloop.run(_work(pipe, options, addresses, part))
    except Exception:  # noqa: BLE001  # The parent must receive every error.
        with suppress(OSError):  # The parent process has ended.
            pipe.send(traceback.format_exc())


async def _work(pipe: Pipe, options: Options, addresses: list[str], part: int) -> None:
    load = load_of_part(options, addresses, part)
    pipe.send("ready")
    await asyncio.to_thread(pipe.recv)

    def client(run: LoadRun) -> Working:
        if options.what.get("sdk"):
            return SdkClient(run, options.headers, options.signer.auth() if options.signer else None)
        return LoadClient(run)

    if options.warm_up:
        await LoadRun(load_of_warm_up(load, options.warm_up)).go(client)
    run = LoadRun(load, first=part + 1, step=options.processes)
    watch = Watch()
    loop = asyncio.get_running_loop()
    # A thread waits for the message: an event loop would make the pipe non-blocking, and large results would be cut.
    threading.Thread(target=_stop_on_message, args=(pipe, loop, run), daemon=True).start()
    helpers = [asyncio.create_task(_report(pipe, run)), asyncio.create_task(watch.run())]
    try:
        await run.go(client)
    finally:
        for task in helpers:
            task.cancel()
        await asyncio.gather(*helpers, return_exceptions=True)
    pipe.send(Part(run.samples, run.taken, run.elapsed, run.connects, run.late, watch))


def _stop_on_message(pipe: Pipe, loop: asyncio.AbstractEventLoop, run: LoadRun) -> None:
    with suppress(EOFError, OSError):  # The parent process has ended: stop too, or the load would go on without it.
        pipe.recv()
    with suppress(RuntimeError):  # The loop has ended.
        loop.call_soon_threadsafe(run.stop)


async def _report(pipe: Pipe, run: LoadRun) -> None:
    reported = 0
    while True:
        await asyncio.sleep(TICK)
        samples = run.samples
        until = len(samples)
        new = range(reported, until)
        names = samples.replicas.words
        pipe.send(
            LiveTick(
                at=run.now,
                seconds=array("d", [samples.ended[n] - samples.started[n] for n in new if not samples.kind[n]]),
                failed=sum(1 for n in new if samples.kind[n]),
                replicas=Counter(names[samples.replica[n]] for n in new if samples.replica[n]),
            )
        )
        reported = until
