"""The states of the circuit breaker."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyreplica.features.downstream.hosts import Breaker, Open
from tests.ratelimit.test_bucket import Clock


def test_a_breaker_opens_after_failures_in_a_row() -> None:
    """A breaker opens after failures in a row: a success resets their count; a call without an outcome keeps it."""
    breaker = Breaker(2, 5, Clock())
    for good in (False, True, False, None):
        breaker.leave(breaker.enter(), good)
    breaker.leave(breaker.enter(), False)
    with pytest.raises(Open) as refused:
        breaker.enter()
    assert refused.value.seconds == 5


@pytest.mark.parametrize(("good", "state"), [(True, "closed"), (False, "open")])
def test_one_call_probes_the_host(good: bool, state: str) -> None:
    """A half-open breaker lets one call pass, and the outcome of this call opens or closes the breaker.

    While this call runs, no other call is allowed, and the outcomes of older calls do not count.
    """
    clock = Clock()
    breaker = Breaker(1, 5, clock)
    late = [breaker.enter() for _ in range(3)]
    breaker.leave(breaker.enter(), False)
    clock.now += 5
    probe = breaker.enter()
    assert breaker.state == "half-open"
    with pytest.raises(Open):
        breaker.enter()
    for turn, said in zip(late, (True, False, None), strict=True):
        breaker.leave(turn, said)
    assert breaker.state == "half-open"
    breaker.leave(probe, good)
    assert breaker.state == state


def test_a_probe_without_an_outcome_is_followed_by_another() -> None:
    """If a probe ends without an outcome, because its caller went away, another probe follows."""
    clock = Clock()
    breaker = Breaker(1, 5, clock)
    breaker.leave(breaker.enter(), False)
    clock.now += 5
    breaker.leave(breaker.enter(), None)
    breaker.leave(breaker.enter(), True)
    assert breaker.state == "closed"


@given(st.lists(st.sampled_from(["enter", "good", "bad", "gone", "wait", "long"]), max_size=60))
def test_a_half_open_breaker_always_has_one_probe(steps: list[str]) -> None:
    """A half-open breaker always has one probe in flight. Five seconds after all calls, it allows a call again."""
    clock = Clock()
    breaker = Breaker(3, 5, clock)
    turns: list[int] = []
    for step in steps:
        if step in ("wait", "long"):
            clock.now += 1 if step == "wait" else 6
        elif step == "enter":
            with contextlib.suppress(Open):
                turns.append(breaker.enter())
        elif turns:
            breaker.leave(turns.pop(0), {"good": True, "bad": False, "gone": None}[step])
        probes = [turn for turn in turns if turn == breaker._turn]
        assert len(probes) == 1 or breaker.state != "half-open"
    for turn in turns:
        breaker.leave(turn, None)
    clock.now += 5
    breaker.leave(breaker.enter(), True)
    assert breaker.state == "closed"
