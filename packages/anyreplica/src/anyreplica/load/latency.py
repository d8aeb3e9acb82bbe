"""Latency figures: the samples of a run, exact percentiles and a histogram."""

import math
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Sample:
    """The measurement of one request."""

    started: float
    """Time at which the request was sent, or should have been sent, in seconds since the start of the run."""
    ended: float
    """Time when the response was complete or the request failed; seconds since the start of the run."""
    kind: str
    """Kind of failure; empty for a success."""
    replica: str
    """Name of the replica that answered (`X-Served-By`); empty if none did."""
    name: str
    """Name of the request in the report."""
    connection: int
    """Id of the connection, from 1; 0 if there was no connection."""

    @property
    def seconds(self) -> float:
        """Duration of the request in seconds."""
        return self.ended - self.started


class NumberedWords:
    """A list of distinct words; each word has a number."""

    def __init__(self, words: tuple[str, ...] = ()) -> None:
        self.words = list(words)
        self._numbers = {word: number for number, word in enumerate(words)}

    def number(self, word: str) -> int:
        """Return the number that stands for a word. A new word gets the next free number."""
        number = self._numbers.get(word)
        if number is None:
            number = self._numbers[word] = len(self.words)
            self.words.append(word)
        return number


@dataclass
class Samples:
    """The samples of a run, in the order in which the requests ended."""

    started: "array[float]" = field(default_factory=lambda: array("d"))
    ended: "array[float]" = field(default_factory=lambda: array("d"))
    kind: "array[int]" = field(default_factory=lambda: array("H"))
    replica: "array[int]" = field(default_factory=lambda: array("H"))
    name: "array[int]" = field(default_factory=lambda: array("H"))
    connection: "array[int]" = field(default_factory=lambda: array("L"))
    kinds: NumberedWords = field(default_factory=lambda: NumberedWords(("",)))
    replicas: NumberedWords = field(default_factory=lambda: NumberedWords(("",)))
    names: NumberedWords = field(default_factory=NumberedWords)
    examples: dict[str, str] = field(default_factory=dict)
    """One example of each kind of failure: the beginning of the response, or the text of an error if no response came.

    The example is empty if there is neither.
    """

    def add(self, started: float, ended: float, kind: str, replica: str, name: str, connection: int) -> None:
        """Add a sample."""
        self.started.append(started)
        self.ended.append(ended)
        self.kind.append(self.kinds.number(kind))
        self.replica.append(self.replicas.number(replica))
        self.name.append(self.names.number(name))
        self.connection.append(connection)

    def __len__(self) -> int:
        return len(self.ended)

    def __iter__(self) -> Iterator[Sample]:
        kinds, replicas, names = self.kinds.words, self.replicas.words, self.names.words
        columns = zip(self.started, self.ended, self.kind, self.replica, self.name, self.connection, strict=True)
        for started, ended, kind, replica, name, connection in columns:
            yield Sample(started, ended, kinds[kind], replicas[replica], names[name], connection)


def merged(parts: list[Samples]) -> Samples:
    """Merge the samples of several processes; each connection gets a number that no other connection has."""
    whole = Samples()
    everything = [(each, offset) for offset, part in enumerate(parts) for each in part]
    for each, offset in sorted(everything, key=lambda pair: pair[0].ended):
        number = each.connection * len(parts) + offset if each.connection else 0
        whole.add(each.started, each.ended, each.kind, each.replica, each.name, number)
    for part in reversed(parts):
        whole.examples.update(part.examples)
    return whole


PERCENTILES = (50.0, 75.0, 90.0, 95.0, 99.0, 99.9)
"""The percentiles in the reports."""

_STEPS = (1.0, 1.25, 1.6, 2.0, 2.5, 3.15, 4.0, 5.0, 6.3, 8.0)
"""Bounds of the histogram's buckets within a decade: Renard's series R10 (ISO 3), each about 25 % above the last."""


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least `percent` % of the values do not exceed (nearest rank, exact).

    Args:
        ordered: The values in ascending order.
        percent: The percentile, from 0 to 100.

    Raises:
        ValueError: There are no values.
    """
    if not ordered:
        raise ValueError("no values")
    # Round first: without it, a rounding error of 1e-13 would make 99.9 % of 1,000 values the 1,000th value.
    rank = math.ceil(round(percent / 100 * len(ordered), 6))
    return ordered[max(0, rank - 1)]


@dataclass(frozen=True)
class Latency:
    """Latency figures in milliseconds; all are None if there are no values."""

    count: int
    mean: float | None
    p50: float | None
    p75: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    p99_9: float | None
    max: float | None

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Latency":
        """Return the latency figures of a list of durations in seconds."""
        ordered = sorted(seconds)
        if not ordered:
            return cls(0, *[None] * 8)
        exact = [percentile(ordered, percent) for percent in (*PERCENTILES, 100)]
        return cls(len(ordered), *(round(value * 1000, 3) for value in (math.fsum(ordered) / len(ordered), *exact)))


@dataclass(frozen=True)
class Bucket:
    """One bar of a histogram."""

    up_to_ms: float
    """The upper bound in milliseconds; the bucket includes the bound."""
    count: int


def histogram(seconds: Sequence[float]) -> list[Bucket]:
    """Count durations in buckets; each bound is about 25 % above the one before.

    With buckets of equal width, one outlier would put all other values into the first bucket.

    Args:
        seconds: The durations in seconds.
    """
    last = len(_BOUNDS) - 1
    counts = Counter(min(last, bisect_left(_BOUNDS, value * 1000)) for value in seconds)
    if not counts:
        return []
    return [Bucket(_BOUNDS[step], counts[step]) for step in range(min(counts), max(counts) + 1)]


_BOUNDS = [float(f"{step}e{decade}") for decade in range(-3, 8) for step in _STEPS]
"""Bounds in milliseconds, from 1 microsecond to 22 hours; longer durations count in the last bucket."""
