"""Tests of the summary of a run's samples, and of its measure for how evenly the replicas shared the requests."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyreplica.load.latency import Samples, merged
from anyreplica.load.summary import Summary, evenness, summarize, tolerance
from anyreplica.load.watch import Generator

QUIET = Generator(processes=1, cpu=0.2, lag_p99_ms=1.0, late_p99_ms=0.0)


def samples() -> Samples:
    """Return ten calls: six of replica a, three of replica b with one failure, and one without a reply."""
    some = Samples()
    for number in range(6):
        some.add(number / 10, number / 10 + 0.010, "", "a", "tools/call echo", 1 + number % 2)
    for number in range(2):
        some.add(1 + number, 1 + number + 0.030, "", "b", "tools/list", 3)
    some.add(0.5, 0.501, "HTTP 503", "b", "tools/list", 3)
    some.add(1.0, 1.95, "timeout", "", "tools/call echo", 4)
    some.examples = {"HTTP 503": "draining", "timeout": ""}
    return some


def summary(some: Samples, expected: int = 3, generator: Generator = QUIET) -> Summary:
    """Return the summary of samples from two seconds."""
    return summarize(
        some, elapsed=2.0, connects=[0.001] * 4, expected_replicas=expected, offered=None, begun=10, generator=generator
    )


SUMMARY = summary(samples())


def test_failures_stay_out_of_the_latency() -> None:
    """Failed calls do not count in the latency, so that fast failures do not make the service look fast."""
    assert (SUMMARY.requests, SUMMARY.succeeded, SUMMARY.failed, SUMMARY.throughput) == (10, 8, 2, 4.0)
    assert (SUMMARY.latency.p50, SUMMARY.latency.p95, SUMMARY.latency.max) == (10, 30, 30)
    assert (SUMMARY.latency_failed.count, SUMMARY.latency_failed.max) == (2, 950)
    assert sum(bucket.count for bucket in SUMMARY.histogram) == 8


def test_failures_replicas_and_steps_are_grouped() -> None:
    """The summary has the figures of each kind of failure, replica, kind of request, and slice of time."""
    found = {failure.kind: (failure.count, failure.example) for failure in SUMMARY.failures}
    assert found == {"HTTP 503": (1, "draining"), "timeout": (1, "")}
    a, b = SUMMARY.replicas
    assert (a.name, a.requests, a.failed, a.connections, a.share) == ("a", 6, 0, 2, 0.6667)
    assert (b.name, b.requests, b.failed, b.connections, b.share) == ("b", 3, 1, 1, 0.3333)
    assert (b.first_seen, b.last_seen) == (0.501, 2.03)
    steps = [(step.name, step.requests, step.failed) for step in SUMMARY.steps]
    assert steps == [("tools/call echo", 7, 1), ("tools/list", 3, 1)]
    assert len(SUMMARY.slices) == 20
    assert sum(each.requests for each in SUMMARY.slices) == 10
    assert [(each.at, each.failed) for each in SUMMARY.slices if each.failed] == [(0.5, 1), (1.9, 1)]
    assert sum(sum(each.replicas.values()) for each in SUMMARY.slices) == 9


def test_each_problem_is_one_sentence() -> None:
    """Each problem is one sentence, also that the shares differ more than chance explains."""
    assert SUMMARY.problems == ["2 of 10 requests failed", "2 of 3 expected replicas took part"]
    assert summary(Samples()).problems[0] == "no request was sent"
    some = Samples()
    for number in range(300):
        some.add(0, 0.01, "", "a" if number < 200 else "b" if number < 250 else "c", "tools/call echo", number + 1)
    (problem,) = summary(some).problems
    start = "the replicas' shares are uneven: Jain's index is 0.667, a fair balancer stays above 0.9"
    assert problem.startswith(start)


@pytest.mark.parametrize(
    ("cpu", "lag", "words"), [(0.5, 1.0, ""), (0.97, 1.0, "used 97% of a core"), (0.5, 80.0, "80 ms late")]
)
def test_a_generator_at_its_limit_is_a_problem(cpu: float, lag: float, words: str) -> None:
    """A generator at its limit is reported, because the figures then describe the generator."""
    limit = Generator(processes=1, cpu=cpu, lag_p99_ms=lag, late_p99_ms=0).limit
    assert words in limit
    assert bool(limit) == bool(words)


def test_samples_of_two_processes_are_merged() -> None:
    """Samples of two processes are merged in the order of their ends, with unique connection numbers."""
    whole = merged([samples(), samples()])
    ends = [each.ended for each in whole]
    assert len(ends) == 20
    assert ends == sorted(ends)
    assert len({each.connection for each in whole}) == 8
    assert whole.examples == samples().examples


@pytest.mark.parametrize(
    ("counts", "index"), [([10, 10, 10], 1.0), ([30, 0, 0], 1 / 3), ([1, 2, 3], 36 / 42), ([0, 0], 0.0), ([5], 1.0)]
)
def test_jains_index(counts: list[int], index: float) -> None:
    """The index follows the formula of Jain's paper, and one replica or no connection has no tolerance."""
    assert evenness(counts) == pytest.approx(index)
    assert tolerance(1, 100) == tolerance(3, 0) == 0.0


@given(st.lists(st.integers(0, 10**6), min_size=1).filter(any))
def test_the_index_is_between_its_limits(counts: list[int]) -> None:
    """The index of n replicas is between 1/n and 1."""
    assert 1 / len(counts) - 1e-9 <= evenness(counts) <= 1 + 1e-9


@pytest.mark.parametrize(("replicas", "connections"), [(3, 30), (3, 300), (10, 100)])
def test_fair_dice_stay_above_the_tolerance(replicas: int, connections: int) -> None:
    """At most 2 of 2,000 random balancers are below the tolerance, which is close to the 21st of them."""
    dice = random.Random(1)  # noqa: S311
    rounds = (Counter(dice.choices(range(replicas), k=connections)) for _ in range(2000))
    throws = sorted(evenness([counts[number] for number in range(replicas)]) for counts in rounds)
    bound = tolerance(replicas, connections)
    assert throws[2] > bound
    assert throws[20] - bound < 0.35 * (1 - bound) + 0.1
