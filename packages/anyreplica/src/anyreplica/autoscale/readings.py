"""The figures of a replica at one moment, and what they mean over the last seconds."""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median_high

from anyreplica.autoscale.policy import Figure, Policy
from anyreplica.autoscale.service import Service

SECONDS = 15.0
"""The figures are averages of this time, in seconds."""

_OLDEST_SECONDS = 60.0
"""Maximum age of the reading with which the CPU time and the other counters are compared, in seconds. It may be older
than `SECONDS` if an answer of Docker was late, so that two checks are further apart."""

_LEAST_CALLS = 20
"""With fewer observations, a 99th percentile says nothing, and the calls count as fast."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The figures of a replica at one moment. `None`: the replica does not report this figure.

    Attributes:
        at: time of a monotonic clock, in seconds.
        started: when each process of the replica began, as Unix times. A new process begins its counters at 0.
        in_flight: requests in flight as a share of MAX_IN_FLIGHT.
        cpu: CPU time that the processes have used, in seconds.
        lag: numbers of observations of the event-loop lag by their upper bounds in seconds.
        durations: the same of the durations of tool calls.
        jobs: jobs that wait or run.
        age: seconds since the oldest waiting job was submitted.
        is_draining: whether the replica drains.
    """

    at: float
    started: tuple[float, ...] = ()
    in_flight: float | None = None
    cpu: float | None = None
    lag: Mapping[float, float] = field(default_factory=dict)
    durations: Mapping[float, float] = field(default_factory=dict)
    jobs: float | None = None
    age: float | None = None
    is_draining: bool = False


class History:
    """The last readings of one replica."""

    def __init__(self) -> None:
        self._readings: deque[Reading] = deque()

    def add(self, found: Reading) -> None:
        """Add a reading. Forget those that are too old."""
        self._readings.append(found)
        while len(self._readings) > 2 and self._readings[0].at < found.at - SECONDS:
            self._readings.popleft()
        if self._readings[0].at < found.at - _OLDEST_SECONDS:
            self._readings.popleft()

    @property
    def newest(self) -> Reading | None:
        """The newest reading."""
        return self._readings[-1] if self._readings else None

    def in_flight(self) -> float | None:
        """Return the average share of MAX_IN_FLIGHT that was in use."""
        recent = [each for each in self._readings if each.at >= self._readings[-1].at - SECONDS]
        found = [each.in_flight for each in recent if each.in_flight is not None]
        return sum(found) / len(found) if found else None

    def cpu(self) -> float | None:
        """Return the cores that the replica has used. None: there is only one reading."""
        first, last = self._ends()
        if first is None or last is None or first.cpu is None or last.cpu is None:
            return None
        return (last.cpu - first.cpu) / (last.at - first.at)

    def lag(self) -> float | None:
        """Return the 99th percentile of the event-loop lag, in seconds."""
        first, last = self._ends()
        return None if first is None or last is None else _percentile(first.lag, last.lag, least=1)

    def p99(self) -> float | None:
        """Return the 99th percentile of the durations of tool calls, in seconds."""
        first, last = self._ends()
        return None if first is None or last is None else _percentile(first.durations, last.durations, _LEAST_CALLS)

    def _ends(self) -> tuple[Reading | None, Reading | None]:
        """Return the oldest and the newest reading of the same processes, if there are two of different times.

        Counters begin at 0 in a new process, and a process that is too busy to answer is missing in some readings.
        """
        same = [each for each in self._readings if each.started == self._readings[-1].started]
        if len(same) < 2 or same[0].at == same[-1].at:
            return None, None
        return same[0], same[-1]


def _percentile(before: Mapping[float, float], after: Mapping[float, float], least: int) -> float:
    """Return the 99th percentile of the observations between two moments.

    It lies between the bounds of a bucket, as in Prometheus' `histogram_quantile`. Above the last bound, it is this
    bound.
    """
    bounds = sorted(after)
    counts = [after[bound] - before.get(bound, 0.0) for bound in bounds]
    total = counts[-1] if counts else 0.0
    if total < least:
        return 0.0
    rank, below, lower = 0.99 * total, 0.0, 0.0
    for bound, count in zip(bounds, counts, strict=True):
        if count >= rank:
            return lower if math.isinf(bound) else lower + (bound - lower) * (rank - below) / max(count - below, 1e-9)
        below, lower = count, bound
    return lower


def figures_of_replicas(policy: Policy, service: Service, histories: Sequence[History | None]) -> list[Figure]:
    """Return the figures of a service of replicas. `histories` has None for each replica that gives no figures."""

    def figure(name: str, measure: str, full: float) -> Figure:
        values = [None if each is None else getattr(each, measure)() for each in histories]
        return Figure(name, [None if value is None else value / full for value in values])

    found = [
        figure("calls in flight", "in_flight", policy.target),
        figure("CPU", "cpu", service.cores * policy.target),
    ]
    if policy.lag_seconds is not None:
        found.append(figure("event-loop lag", "lag", policy.lag_seconds))
    if policy.p99_seconds is not None:
        found.append(figure("99th percentile of calls", "p99", policy.p99_seconds))
    return found


def figures_of_workers(policy: Policy, service: Service, workers: int, readings: Sequence[Reading]) -> list[Figure]:
    """Return the figures of a service of workers.

    For the age of the oldest job, the number of workers is at most the number of jobs. After a new worker has started,
    the age still grows for some time. Without this limit, it would ask for more and more workers.

    Args:
        workers: desired number of workers.
        readings: what the replicas say about the queue. All of them see the same queue, so the middle value counts,
            and one replica with a wrong value changes nothing.
    """
    jobs = [each.jobs for each in readings if each.jobs is not None]
    ages = [each.age for each in readings if each.age is not None]
    workers = max(1, workers)
    full = workers * service.concurrency * policy.target
    by_length = median_high(jobs) / full if jobs else None
    by_age = min(median_high(ages) / policy.age_seconds, median_high(jobs) / workers) if ages and jobs else None
    return [Figure("jobs", [by_length] * workers), Figure("age of the oldest job", [by_age] * workers)]
