"""What a run's samples add up to."""

from collections import Counter, defaultdict
from dataclasses import dataclass

from mcp_swarm.loadtest.evenness import evenness, tolerance
from mcp_swarm.loadtest.latency import Bucket, Latency, histogram
from mcp_swarm.loadtest.samples import Sample, Samples
from mcp_swarm.loadtest.slices import Slice, slices
from mcp_swarm.loadtest.watch import Generator


@dataclass(frozen=True)
class FailureKind:
    """One kind of failure."""

    kind: str
    count: int
    example: str
    """What came, in short; empty if nothing did."""


@dataclass(frozen=True)
class ReplicaShare:
    """One replica's part in a run."""

    name: str
    requests: int
    failed: int
    connections: int
    share: float
    """Of all requests that any replica answered, 0 to 1."""
    latency: Latency
    """Of its successful requests."""
    first_seen: float
    """Seconds since the start."""
    last_seen: float


@dataclass(frozen=True)
class Step:
    """One kind of request."""

    name: str
    requests: int
    failed: int
    latency: Latency
    """Of the successful."""


@dataclass(frozen=True)
class Evenness:
    """How evenly the replicas shared the work."""

    index: float
    """Jain's fairness index of the requests: 1 is even."""
    tolerance: float
    """What fair chance, for each connection, reaches 9,999 times of 10,000."""


@dataclass(frozen=True)
class Summary:
    """A whole run."""

    requests: int
    succeeded: int
    seconds: float
    throughput: float
    """Successful requests per second."""
    offered: float | None
    """Times per second that the schedule of an open loop asked for the scenario; None for a closed one."""
    begun: float
    """Times per second that the scenario was begun: a request, or a conversation of several."""
    latency: Latency
    """Of the successful."""
    latency_failed: Latency
    histogram: list[Bucket]
    """Of the successful."""
    failures: list[FailureKind]
    """Most frequent first."""
    steps: list[Step]
    connections: int
    connecting: Latency
    replicas: list[ReplicaShare]
    expected_replicas: int
    evenness: Evenness
    slices: list[Slice]
    generator: Generator

    @property
    def failed(self) -> int:
        """Requests that didn't succeed."""
        return self.requests - self.succeeded

    @property
    def problems(self) -> list[str]:
        """What keeps the verdict from being good, a sentence each."""
        found = []
        if not self.requests:
            found.append("not one request was sent")
        if self.failed:
            found.append(f"{self.failed} of {self.requests} calls failed")
        if len(self.replicas) < self.expected_replicas:
            found.append(f"{len(self.replicas)} of {self.expected_replicas} expected replicas took part")
        elif self.evenness.index < self.evenness.tolerance:
            found.append(
                f"the replicas' shares are less even ({self.evenness.index:.3f}) "
                f"than chance makes them ({self.evenness.tolerance:.3f})"
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
    """Add up the samples of a run.

    Args:
        elapsed: seconds that the run took.
        connects: seconds that each connection took to be made.
        offered: times per second that an open loop was to begin the scenario.
        begun: how many times it was begun.
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
    """Of all replicas that took part, and of those that should have: these count as having done nothing."""
    count = max(len(replicas), expected)
    shares = [replica.requests for replica in replicas] + [0] * (count - len(replicas))
    choices = sum(replica.connections for replica in replicas)
    return Evenness(round(evenness(shares), 4), round(tolerance(count, choices), 4))
