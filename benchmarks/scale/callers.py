"""The load: the same number of connections to each replica, from a process on each of the load's cores."""

import asyncio
import multiprocessing
import os
import signal
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from functools import partial

from benchmarks.interruption import held, run
from benchmarks.load import Load
from benchmarks.process import cpu_seconds_of
from benchmarks.sample import Sample
from benchmarks.scenarios import Scenario


@dataclass(frozen=True)
class Target:
    """A replica that is called."""

    port: int
    pid: int


@dataclass(frozen=True)
class Calling:
    """How replicas are called."""

    scenario: Scenario
    connections: int
    """To each."""
    warm_up: float
    """Seconds in which each reply is checked before anything counts."""
    seconds: float


@dataclass(frozen=True)
class Heard:
    """What came of it."""

    samples: list[Sample]
    """Of each replica."""
    busy: float
    """Most CPU time per time, 0 to 1, of a process that called: near 1 it was what set the pace."""


def call(calling: Calling, targets: Mapping[int, Sequence[Target]]) -> Heard:
    """Call replicas, all at once.

    Args:
        targets: by the core that the load comes from.

    Raises:
        LoadError: one of them gave a wrong reply in the warm-up, or none.
    """
    fork = multiprocessing.get_context("fork")
    with ExitStack() as stack:
        with held():  # what is raised in a fork gets lost
            pool = stack.enter_context(ProcessPoolExecutor(len(targets), fork, initializer=_leave_signals))
            waiting = [pool.submit(_call_from, core, calling, each) for core, each in targets.items()]
        heard = [each.result() for each in waiting]
    return Heard([sample for each in heard for sample in each.samples], max(each.busy for each in heard))


def _leave_signals() -> None:
    """Ctrl-C on a terminal reaches all processes: this one ends when its second is over, the parent then at once."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _call_from(core: int, calling: Calling, targets: Sequence[Target]) -> Heard:
    os.sched_setaffinity(0, {core})
    return run(_call(calling, targets))


async def _call(calling: Calling, targets: Sequence[Target]) -> Heard:
    async with AsyncExitStack() as stack:
        loads = [
            await stack.enter_async_context(Load(target.port, calling.scenario, calling.connections))
            for target in targets
        ]
        await asyncio.gather(*(load.run(calling.warm_up) for load in loads))
        began, cpu = time.perf_counter(), time.process_time()
        clocks = [partial(cpu_seconds_of, target.pid) for target in targets]
        samples = await asyncio.gather(
            *(load.measure(calling.seconds, clock) for load, clock in zip(loads, clocks, strict=True))
        )
        return Heard(list(samples), (time.process_time() - cpu) / (time.perf_counter() - began))
