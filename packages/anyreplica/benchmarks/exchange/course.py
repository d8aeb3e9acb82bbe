"""One scenario through all rounds, in one server process."""

import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from anyreplica.features.keys.key import KeyEntry, hash_of
from benchmarks.interruption import run
from benchmarks.load import LoadError, measured
from benchmarks.process import Process, ProcessError, replica
from benchmarks.sample import Sample
from benchmarks.scenarios import FLOOR, Scenario
from benchmarks.study import Row

JUDGED = 32
"""Number of requests in flight at which the targets apply. This number keeps the server busy."""
LOADS = (1, JUDGED)
"""Numbers of requests in flight: one caller, and enough callers to keep the server busy."""

_LOG_PATIENCE = 2.0


def serve(scenario: Scenario, core: int, folder: Path) -> Process:
    """Start the server of a scenario, or the floor."""
    if not scenario.pack:
        return Process("benchmarks.floor", core=core, folder=folder)
    return replica(scenario.pack, core, folder, **secured(scenario, folder))


def secured(scenario: Scenario, folder: Path) -> dict[str, str]:
    """Return the settings of a scenario with a key: authentication, a rate limit, and an audit log."""
    if not scenario.key:
        return {}
    keys = folder / f"{scenario.name}.keys"
    entry = KeyEntry(id="caller", hash=hash_of(scenario.key), rate="1000000/s")
    keys.write_text(entry.model_dump_json(exclude_none=True))
    return {"AUTH_ENABLED": "true", "API_KEYS_FILE": str(keys), "AUDIT_LOG": str(folder / f"{scenario.name}.audit")}


class Course:
    """A scenario, the process that serves it, and its figures."""

    def __init__(self, scenario: Scenario, process: Process, seconds: float) -> None:
        self.scenario = scenario
        self.failure = ""
        """Reason why the scenario cannot be measured."""
        self.last: dict[int, Sample] = {}
        """The last sample of each load."""
        self._values: dict[int, dict[str, list[float]]] = {load: defaultdict(list) for load in LOADS}
        self._process = process
        self._seconds = seconds

    def begin(self) -> None:
        """Wait until the process serves."""
        self._unless_failed(self._process.wait_ready)

    def measure(self, load: int, floor: Sample | None = None) -> None:
        """Measure one load of one round; `floor` is the sample of the floor (the simplest app), taken just before."""

        def attempt() -> None:
            self._process.empty_log()
            cpu_seconds = self._process.cpu_seconds
            sample, replies = run(measured(self._process.port, self.scenario, load, self._seconds, cpu_seconds))
            if self.scenario is not FLOOR:
                self._check_log(replies)
            self.last[load] = sample
            figures = {
                "cpu": sample.cpu_us,
                "ratio": sample.cpu_us / (floor or sample).cpu_us,
                "rate": sample.per_second,
                "p50": sample.p50_ms,
                "p99": sample.p99_ms,
            }
            for name, value in figures.items():
                self._values[load][name].append(value)

        self._unless_failed(attempt)

    def row(self, load: int) -> Row:
        """Return the figures of one load."""
        name, title = self.scenario.name, self.scenario.title
        if self.failure:
            return Row(name, title, failure=self.failure)
        target = self.scenario.target if load == JUDGED else None
        return Row.of(name, title, {**self._values[load], "target": [target] if target else []})

    def _check_log(self, replies: int) -> None:
        """Check that the server logged each request: a missing log line would make the server look faster."""
        deadline = time.monotonic() + _LOG_PATIENCE
        while (logged := self._process.requests_logged()) < replies:
            if time.monotonic() > deadline:
                raise ProcessError(f"only {logged} of {replies} requests are in the access log")
            time.sleep(0.05)

    def _unless_failed(self, attempt: Callable[[], object]) -> None:
        if self.failure:
            return
        try:
            attempt()
        except (LoadError, ProcessError, OSError) as error:
            self.failure = self._process.end or str(error)
