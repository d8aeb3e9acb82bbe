"""One scenario through all rounds, in one process."""

import time
from collections.abc import Callable

from benchmarks.interruption import run
from benchmarks.load import Load, LoadError
from benchmarks.plan import CONNECTIONS, Plan
from benchmarks.process import Process, ProcessError
from benchmarks.results import LoadFigures, ScenarioFigures
from benchmarks.sample import Sample
from benchmarks.scenarios import FLOOR, Scenario

_LOG_PATIENCE = 2.0


class Course:
    """A scenario, the process that serves it, and what was measured of it so far."""

    def __init__(self, plan: Plan, scenario: Scenario, process: Process) -> None:
        self.scenario = scenario
        self.failure = ""
        """Why it can't be measured further."""
        self.samples: dict[int, list[Sample]] = {connections: [] for connections in CONNECTIONS}
        """One a round, by the number of connections."""
        self._floor: dict[int, list[Sample]] = {connections: [] for connections in CONNECTIONS}
        """The floor's right before each of them; its own, for the floor."""
        self._plan = plan
        self._process = process
        self._rss: list[float] = []

    def begin(self) -> None:
        """Wait until the process serves, and note its memory."""

        def attempt() -> None:
            self._process.wait_ready()
            self._rss.append(self._process.rss_mb())

        self._unless_failed(attempt)

    def measure(self, connections: int, floor: Sample | None = None) -> None:
        """Measure one load of one round.

        Args:
            floor: what was measured of the floor right before.
        """

        def attempt() -> None:
            self._process.empty_log()
            sample, replies = run(self._load(connections))
            self.samples[connections].append(sample)
            self._floor[connections].append(floor or sample)
            if self._plan.logs_requests and self.scenario is not FLOOR:
                self._check_log(replies)

        self._unless_failed(attempt)

    def end(self) -> None:
        """Note what memory the process has after all rounds."""
        self._unless_failed(lambda: self._rss.append(self._process.rss_mb()))

    def figures(self) -> ScenarioFigures:
        """What came of it, compared with the floor."""
        loads = []
        if not self.failure:
            loads = [LoadFigures.of(number, mine, self._floor[number]) for number, mine in self.samples.items()]
        return ScenarioFigures.of(self.scenario, self.failure or self._wrong_replies(), self._rss, loads)

    async def _load(self, connections: int) -> tuple[Sample, int]:
        async with Load(self._process.port, self.scenario, connections) as load:
            await load.run(self._plan.warm_up)
            sample = await load.measure(self._plan.seconds, self._process.cpu_seconds)
        return sample, load.replies

    def _check_log(self, replies: int) -> None:
        """See that each request was logged: what isn't done must not count as fast."""
        deadline = time.monotonic() + _LOG_PATIENCE
        while (logged := self._process.requests_logged()) < replies:
            if time.monotonic() > deadline:
                raise ProcessError(f"only {logged} of {replies} requests are in the access log")
            time.sleep(0.05)

    def _wrong_replies(self) -> str:
        wrong = [sample for samples in self.samples.values() for sample in samples if sample.errors]
        if not wrong:
            return ""
        return f"{sum(sample.errors for sample in wrong)} replies were wrong; the first: {wrong[0].first_error}"

    def _unless_failed(self, attempt: Callable[[], None]) -> None:
        if self.failure:
            return
        try:
            attempt()
        except (LoadError, ProcessError, OSError) as error:
            self.failure = self._process.end or str(error)
