"""What a run's outcomes add up to."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from loadtest.call import Outcome

PERCENTILES = (50, 95, 99)


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The smallest of the ordered values that at least `percent` % of them do not exceed (nearest rank, exact).

    Raises:
        ValueError: there are no values.
    """
    if not ordered:
        raise ValueError("no values")
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


@dataclass(frozen=True)
class Latency:
    """Latencies in milliseconds; all None when there were none."""

    p50: float | None
    p95: float | None
    p99: float | None
    max: float | None

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Latency":
        """The latency figures of calls that took so many seconds each."""
        ordered = sorted(seconds)
        if not ordered:
            return cls(None, None, None, None)
        return cls(*(round(percentile(ordered, percent) * 1000, 3) for percent in (*PERCENTILES, 100)))


@dataclass(frozen=True)
class Replica:
    """One replica's part in a run."""

    name: str
    requests: int
    succeeded: int
    share: float
    """Of all requests that any replica answered, 0 to 1."""
    latency: Latency
    """Of its successful calls."""


@dataclass(frozen=True)
class Summary:
    """A whole run."""

    requests: int
    succeeded: int
    seconds: float
    throughput: float
    """Successful calls per second."""
    latency: Latency
    """Of the successful calls."""
    errors: dict[str, int]
    """Failed calls by kind, most frequent first."""
    replicas: list[Replica]
    expected_replicas: int

    @property
    def problems(self) -> list[str]:
        """What keeps the verdict from being good, a sentence each."""
        found = []
        failed = self.requests - self.succeeded
        if failed:
            found.append(f"{failed} of {self.requests} calls failed")
        if len(self.replicas) < self.expected_replicas:
            found.append(f"{len(self.replicas)} of {self.expected_replicas} expected replicas took part")
        return found

    def as_json(self) -> dict[str, Any]:
        """The summary as JSON has it, with the verdict."""
        return {**asdict(self), "problems": self.problems, "passed": not self.problems}


def summarize(outcomes: Sequence[Outcome], seconds: float, expected_replicas: int) -> Summary:
    """Add up outcomes of a run that took `seconds`."""
    good = [outcome for outcome in outcomes if not outcome.error]
    answered = Counter(outcome.replica for outcome in outcomes if outcome.replica)
    total = sum(answered.values())
    replicas = [
        Replica(
            name,
            requests,
            sum(outcome.replica == name for outcome in good),
            round(requests / total, 4),
            Latency.of([outcome.seconds for outcome in good if outcome.replica == name]),
        )
        for name, requests in sorted(answered.items())
    ]
    return Summary(
        requests=len(outcomes),
        succeeded=len(good),
        seconds=round(seconds, 3),
        throughput=round(len(good) / seconds, 1) if seconds else 0.0,
        latency=Latency.of([outcome.seconds for outcome in good]),
        errors=dict(Counter(outcome.error for outcome in outcomes if outcome.error).most_common()),
        replicas=replicas,
        expected_replicas=expected_replicas,
    )
