"""The summary of a run: all figures of the reports, computed from the samples."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from anyreplica.load.latency import Bucket, Latency, Sample, Samples, histogram, percentile
from anyreplica.load.watch import Generator

SLICES = 60
"""Maximum number of slices of a run."""

_SHORTEST = 0.1
"""Minimum length of a slice, in seconds."""

_CHANCE = 0.9999
"""Share of the runs with a fair random balancer that stay above the tolerance: 1 run in 10,000 is a false alarm."""


@dataclass(frozen=True)
class Slice:
    """Figures of the requests that ended within one slice."""

    at: float
    """Start of the slice, in seconds since the start of the run."""
    seconds: float
    """Length of the slice, in seconds."""
    requests: int
    """Number of requests that ended in the slice."""
    failed: int
    """Number of failed requests."""
    p50: float | None
    """Latency of the successful requests, in milliseconds; None if there are none."""
    p99: float | None
    """Latency of the successful requests, in milliseconds; None if there are none."""
    replicas: dict[str, int]
    """Number of requests that each replica answered."""


def slices(samples: Samples, elapsed: float) -> list[Slice]:
    """Divide a run of `elapsed` seconds into slices."""
    count = max(1, min(SLICES, int(elapsed / _SHORTEST)))
    width = elapsed / count
    good: list[list[float]] = [[] for _ in range(count)]
    failed = [0] * count
    replicas: list[Counter[str]] = [Counter() for _ in range(count)]
    for each in samples:
        number = min(count - 1, int(each.ended / width)) if width else 0
        if each.kind:
            failed[number] += 1
        else:
            good[number].append(each.seconds)
        if each.replica:
            replicas[number][each.replica] += 1
    return [
        Slice(
            at=round(number * width, 3),
            seconds=round(width, 6),
            requests=len(good[number]) + failed[number],
            failed=failed[number],
            p50=_ms(good[number], 50),
            p99=_ms(good[number], 99),
            replicas=dict(sorted(replicas[number].items())),
        )
        for number in range(count)
    ]


def _ms(seconds: list[float], percent: float) -> float | None:
    return round(percentile(sorted(seconds), percent) * 1000, 3) if seconds else None


def evenness(counts: Sequence[int]) -> float:
    """Return Jain's fairness index: 1 if all counts are equal, 1/n if one of n has everything.

    Source: Jain, Chiu, Hawe 1984.
    """
    total, squares = sum(counts), sum(count * count for count in counts)
    return total * total / (len(counts) * squares) if squares else 0.0


def tolerance(replicas: int, choices: int) -> float:
    """Return the lowest evenness to expect from a balancer that chooses a replica at random for each connection.

    The counts of such a balancer are multinomial. So Pearson's statistic X² has a χ² distribution with replicas - 1
    degrees of freedom, and the index is 1 / (1 + X² / choices). Stricter balancers (round robin) stay far above.

    Args:
        replicas: Number of replicas.
        choices: Number of choices that the balancer made: the number of connections if it balances connections.
    """
    if replicas < 2 or not choices:
        return 0.0
    return 1 / (1 + _chi_square(replicas - 1) / choices)


def _chi_square(freedom: int) -> float:
    """Return the quantile of χ² by Wilson and Hilferty's approximation (1931); its error here is about 1 %."""
    part = 2 / (9 * freedom)
    return float(freedom * (1 - part + NormalDist().inv_cdf(_CHANCE) * part**0.5) ** 3)


@dataclass(frozen=True)
class FailureKind:
    """One kind of failure."""

    kind: str
    """Name of the kind, such as `HTTP 503 unavailable`."""
    count: int
    """Number of failed requests."""
    example: str
    """Beginning of one response, or text of an error if no response came; empty if there is neither."""


@dataclass(frozen=True)
class ReplicaShare:
    """The share of one replica in a run."""

    name: str
    requests: int
    failed: int
    connections: int
    share: float
    """Share of this replica in all requests that a replica answered, from 0 to 1."""
    latency: Latency
    """Latency of this replica's successful requests."""
    first_seen: float
    """Time of this replica's first reply, in seconds since the start."""
    last_seen: float
    """Time of this replica's last reply, in seconds since the start."""


@dataclass(frozen=True)
class Step:
    """One kind of request."""

    name: str
    requests: int
    failed: int
    latency: Latency
    """Latency of the successful requests."""


@dataclass(frozen=True)
class Evenness:
    """A measure for how evenly the replicas shared the requests."""

    index: float
    """Jain's fairness index of the numbers of requests: 1 is perfectly even."""
    tolerance: float
    """Lower limit for a balancer that chooses fairly at random for each connection: 9,999 of 10,000 runs are above."""


@dataclass(frozen=True)
class Summary:
    """All figures of a run."""

    requests: int
    succeeded: int
    seconds: float
    throughput: float
    """Successful requests per second."""
    offered: float | None
    """Rate of the schedule, in scenarios per second; None for a closed loop."""
    begun: float
    """Rate at which clients began the scenario, per second; a scenario is one request or one conversation."""
    latency: Latency
    """Latency of the successful requests."""
    latency_failed: Latency
    """Latency of the failed requests."""
    histogram: list[Bucket]
    """Histogram of the latencies of the successful requests."""
    failures: list[FailureKind]
    """Kinds of failures, the most frequent first."""
    steps: list[Step]
    """Kinds of requests."""
    connections: int
    """Number of connections that the clients made."""
    connecting: Latency
    """Time to make a connection."""
    replicas: list[ReplicaShare]
    expected_replicas: int
    evenness: Evenness
    slices: list[Slice]
    generator: Generator

    @property
    def failed(self) -> int:
        """Number of failed requests."""
        return self.requests - self.succeeded

    @property
    def problems(self) -> list[str]:
        """Reasons why the run failed, apart from thresholds; empty if there are none."""
        found = []
        if not self.requests:
            found.append("no request was sent")
        if self.failed:
            found.append(f"{self.failed:,} of {self.requests:,} requests failed")
        if len(self.replicas) < self.expected_replicas:
            found.append(f"{len(self.replicas)} of {self.expected_replicas} expected replicas took part")
        elif self.evenness.index < self.evenness.tolerance:
            found.append(
                f"the replicas' shares are uneven: Jain's index is {self.evenness.index:.3f}, "
                f"a fair balancer stays above {self.evenness.tolerance:.3f}"
            )
        return found


def summarize(
    samples: Samples,
    *,
    elapsed: float,
    connects: list[float],
    expected_replicas: int,
    offered: float | None,
    begun: int,
    generator: Generator,
) -> Summary:
    """Compute the summary of a run.

    Args:
        samples: The samples of all processes.
        elapsed: Duration of the run, in seconds.
        connects: Durations to make each connection, in seconds.
        expected_replicas: Number of replicas that must take part.
        offered: Rate of the schedule, in scenarios per second; None for a closed loop.
        begun: How many times clients began the scenario.
        generator: Figures about the load generator itself.
    """
    everything = list(samples)
    good = [each for each in everything if not each.kind]
    bad = [each for each in everything if each.kind]
    replicas = _replicas(everything)
    return Summary(
        requests=len(everything),
        succeeded=len(good),
        seconds=round(elapsed, 3),
        throughput=round(len(good) / elapsed, 1) if elapsed else 0.0,
        offered=None if offered is None else round(offered, 1),
        begun=round(begun / elapsed, 1) if elapsed else 0.0,
        latency=_latency(good),
        latency_failed=_latency(bad),
        histogram=histogram([each.seconds for each in good]),
        failures=[
            FailureKind(kind, count, samples.examples.get(kind, ""))
            for kind, count in Counter(each.kind for each in bad).most_common()
        ],
        steps=_steps(everything),
        connections=len(connects),
        connecting=Latency.of(connects),
        replicas=replicas,
        expected_replicas=expected_replicas,
        evenness=_evenness(replicas, expected_replicas),
        slices=slices(samples, elapsed),
        generator=generator,
    )


def _latency(samples: list[Sample]) -> Latency:
    return Latency.of([each.seconds for each in samples])


def _replicas(samples: list[Sample]) -> list[ReplicaShare]:
    by_name: defaultdict[str, list[Sample]] = defaultdict(list)
    for each in samples:
        if each.replica:
            by_name[each.replica].append(each)
    answered = sum(map(len, by_name.values()))
    return [
        ReplicaShare(
            name=name,
            requests=len(its),
            failed=sum(bool(each.kind) for each in its),
            connections=len({each.connection for each in its}),
            share=round(len(its) / answered, 4),
            latency=_latency([each for each in its if not each.kind]),
            first_seen=round(min(each.ended for each in its), 3),
            last_seen=round(max(each.ended for each in its), 3),
        )
        for name, its in sorted(by_name.items())
    ]


def _steps(samples: list[Sample]) -> list[Step]:
    by_name: defaultdict[str, list[Sample]] = defaultdict(list)
    for each in samples:
        by_name[each.name].append(each)
    return [
        Step(name, len(its), sum(bool(each.kind) for each in its), _latency([each for each in its if not each.kind]))
        for name, its in by_name.items()
    ]


def _evenness(replicas: list[ReplicaShare], expected: int) -> Evenness:
    """Return the evenness of the replicas; an expected replica that took no part counts with 0 requests."""
    count = max(len(replicas), expected)
    shares = [replica.requests for replica in replicas] + [0] * (count - len(replicas))
    choices = sum(replica.connections for replica in replicas)
    return Evenness(round(evenness(shares), 4), round(tolerance(count, choices), 4))
