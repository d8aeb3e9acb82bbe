"""The long run: a stateless replica that answers calls without end, beside the least that could answer them."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

from benchmarks.flood.cases import Case
from benchmarks.flood.sizes import Sizes
from benchmarks.interruption import run
from benchmarks.load import Load, LoadError
from benchmarks.process import Process, ProcessError
from benchmarks.sample import Sample
from benchmarks.scenarios import ECHO, FLOOR, Scenario
from benchmarks.study.command import Run

STEPS = 10
"""How often `endure` says how far it is."""

_CONNECTIONS = 32
_WARM_UP = 0.1
_COMPARED = 0.2
"""How long a turn of what it is compared with is, as a share of its own."""
_MOST_SECONDS = 240.0
"""After which it ends, however many requests there were."""

MINIMAL = Scenario(
    "healthz",
    "GET /healthz",
    ECHO.pack,
    b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: benchmark\r\nAccept: */*\r\n\r\n",
    {"status": "alive"},
)
"""The cheapest route of the server."""


@dataclass
class Endurance:
    """What came of it."""

    samples: dict[str, list[Sample]] = field(default_factory=dict)
    """One a turn, by the scenario's name."""
    memory: list[tuple[float, float]] = field(default_factory=list)
    """Requests so far, in thousands, and the replica's resident memory in MB."""
    requests: int = 0
    """Calls of `echo`, each with the right reply."""
    failure: str = ""

    def mb_after(self, share: float) -> float:
        """The memory after a share of the requests."""
        return next((mb for thousands, mb in self.memory if thousands * 1e3 >= share * self.requests), 0.0)

    @property
    def end_mb(self) -> float:
        """The memory after the last request."""
        return self.memory[-1][1] if self.memory else 0.0

    def take(self, scenario: Scenario, sample: Sample, replies: int) -> None:
        """Add a turn."""
        self.samples.setdefault(scenario.name, []).append(sample)
        if sample.errors:
            raise LoadError(f"{scenario.title}: {sample.errors} replies were wrong; the first: {sample.first_error}")
        if scenario is ECHO:
            self.requests += replies


def endure(measured: Run, case: Case, sizes: Sizes) -> Endurance:
    """Serve so many requests, and look at the memory; in turns with the floor and the minimal route.

    What fails ends it, and is told in `failure`.
    """
    found = Endurance()
    try:
        with ExitStack() as stack:
            floor = stack.enter_context(
                Process("benchmarks.floor", core=measured.machine.server_core, folder=measured.folder)
            )
            replica = stack.enter_context(case.serve(measured))
            floor.wait_ready()
            replica.wait_ready()
            run(_turns(found, floor, replica, sizes, measured.step))
    except (LoadError, ProcessError, OSError) as error:
        found.failure = str(error)
    return found


async def _turns(found: Endurance, floor: Process, replica: Process, sizes: Sizes, step: Callable[[str], None]) -> None:
    end = time.monotonic() + _MOST_SECONDS
    for tenth in range(1, STEPS + 1):
        step(f"{sizes.requests:,} requests: {tenth} of {STEPS}")
        while found.requests < sizes.requests * tenth / STEPS and time.monotonic() < end:
            for scenario, process, seconds in (
                (FLOOR, floor, sizes.turn * _COMPARED),
                (MINIMAL, replica, sizes.turn * _COMPARED),
                (ECHO, replica, sizes.turn),
            ):
                sample, replies = await _turn(process, scenario, seconds)
                found.take(scenario, sample, replies)
            found.memory.append((found.requests / 1e3, replica.rss_mb()))
            replica.empty_log()


async def _turn(process: Process, scenario: Scenario, seconds: float) -> tuple[Sample, int]:
    async with Load(process.port, scenario, _CONNECTIONS) as load:
        await load.run(_WARM_UP)
        sample = await load.measure(seconds, process.cpu_seconds)
    return sample, load.replies
