"""A process that generates load, so that neither the terminal nor another generator gets into its way."""

import asyncio
import signal
import threading
import traceback
from array import array
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe

import uvloop

from mcp_swarm.loadtest import plan
from mcp_swarm.loadtest.caller import LoadCaller
from mcp_swarm.loadtest.official import OfficialCaller
from mcp_swarm.loadtest.options import Options
from mcp_swarm.loadtest.run import LoadRun, Working
from mcp_swarm.loadtest.samples import Samples
from mcp_swarm.loadtest.watch import Watch

TICK = 0.25
"""Seconds from one report to the next."""


@dataclass(frozen=True)
class LiveTick:
    """What came since the last one."""

    at: float
    """Seconds since the start."""
    seconds: "array[float]"
    """How long each successful request took."""
    failed: int
    replicas: Counter[str]


@dataclass(frozen=True)
class Part:
    """All that a process has measured."""

    samples: Samples
    begun: int
    """How many times the scenario was begun."""
    elapsed: float
    connects: list[float]
    late: list[float]
    watch: Watch


def work(pipe: Pipe, options: Options, addresses: list[str], part: int) -> None:
    """What the process does: say "ready", wait for a word, send `LiveTick` after `LiveTick` and in the end a `Part`.

    Any word that comes meanwhile means: stop. What goes wrong is sent as a text.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all of the terminal's processes; the parent decides
    try:
        uvloop.run(_work(pipe, options, addresses, part))
    except (EOFError, BrokenPipeError):  # the parent is gone
        return
    except Exception:  # noqa: BLE001  # whatever it is, the parent has to know
        pipe.send(traceback.format_exc())


async def _work(pipe: Pipe, options: Options, addresses: list[str], part: int) -> None:
    load = plan.load(options, addresses, part)
    pipe.send("ready")
    await asyncio.to_thread(pipe.recv)

    def caller(run: LoadRun) -> Working:
        if options.what.get("sdk"):
            return OfficialCaller(run, options.headers, options.signer.auth() if options.signer else None)
        return LoadCaller(run)

    if options.warm_up:
        await LoadRun(plan.warm_up(load, options.warm_up)).go(caller)
    run = LoadRun(load, first=part + 1, step=options.processes)
    watch = Watch()
    loop = asyncio.get_running_loop()
    # A thread, since a loop that watched the pipe would make it one that doesn't wait, and large results be cut off.
    threading.Thread(target=_stop_at_a_word, args=(pipe, loop, run), daemon=True).start()
    beside = [asyncio.create_task(_report(pipe, run)), asyncio.create_task(watch.run())]
    try:
        await run.go(caller)
    finally:
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
    pipe.send(Part(run.samples, run.taken, run.elapsed, run.connects, run.late, watch))


def _stop_at_a_word(pipe: Pipe, loop: asyncio.AbstractEventLoop, run: LoadRun) -> None:
    with suppress(EOFError, OSError):  # the parent is gone: then stop as well, or the load would outlive it
        pipe.recv()
    with suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(run.stop)


async def _report(pipe: Pipe, run: LoadRun) -> None:
    told = 0
    while True:
        await asyncio.sleep(TICK)
        samples = run.samples
        until = len(samples)
        new = range(told, until)
        names = samples.replicas.words
        pipe.send(
            LiveTick(
                at=run.now,
                seconds=array("d", [samples.ended[n] - samples.begun[n] for n in new if not samples.kind[n]]),
                failed=sum(1 for n in new if samples.kind[n]),
                replicas=Counter(names[samples.replica[n]] for n in new if samples.replica[n]),
            )
        )
        told = until
