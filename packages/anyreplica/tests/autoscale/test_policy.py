"""The labels of a service, and the number of replicas that figures lead to."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyreplica.autoscale.policy import DOWN_SECONDS, Figure, LabelError, Policy, Scaler, policy_of, wanted

OURS = {"anyreplica.autoscale": "true", "anyreplica.autoscale.min": "2", "anyreplica.autoscale.max": "9"}
PREFIX = "anyreplica.autoscale"
FIGURES = {f"{PREFIX}.target": "0.5", f"{PREFIX}.lag-seconds": "0.1", f"{PREFIX}.p99-seconds": " 2 "}
OTHERS = {"swarm.autoscaler": "true", "swarm.autoscaler.minimum": "3", "swarm.autoscaler.maximum": "4"}


@pytest.mark.parametrize(
    ("labels", "policy"),
    [
        (OURS, Policy(2, 9, 0.6, None, None)),
        (OURS | FIGURES, Policy(2, 9, 0.5, 0.1, 2.0)),
        (OTHERS, Policy(3, 4)),
        (OTHERS | {f"{PREFIX}.max": "9"}, Policy(3, 9)),
        (OTHERS | {PREFIX: "false"}, None),
        ({}, None),
        ({PREFIX: "No"}, None),
        ({"other": "true"}, None),
    ],
)
def test_the_labels_of_a_service(labels: dict[str, str], policy: Policy | None) -> None:
    """All our labels are read, ours win over the widespread ones, and a service without them is not scaled."""
    assert policy_of(labels) == policy


@pytest.mark.parametrize(
    ("label", "value", "text"),
    [
        ("anyreplica.autoscale", "maybe", "anyreplica.autoscale='maybe': must be true or false"),
        ("anyreplica.autoscale.min", None, "anyreplica.autoscale.min is missing; set it to a number of replicas"),
        ("anyreplica.autoscale.min", "0", "must be a whole number from 1 to 10000"),
        ("anyreplica.autoscale.max", "-1", "must be a whole number from 1 to 10000"),
        ("anyreplica.autoscale.max", "9" * 5000, "must be a whole number from 1 to 10000"),
        ("anyreplica.autoscale.max", "²", "must be a whole number from 1 to 10000"),
        ("anyreplica.autoscale.max", "1", "anyreplica.autoscale.min=2 is larger than anyreplica.autoscale.max=1"),
        ("anyreplica.autoscale.target", "1.5", "must be a number from 0.01 to 1"),
        ("anyreplica.autoscale.target", "nan", "must be a number from 0.01 to 1"),
        ("anyreplica.autoscale.lag-seconds", "soon", "must be a number from 0.001 to 60"),
        ("anyreplica.autoscale.p99-seconds", "0", "must be a number from 0.001 to 3600"),
    ],
)
def test_wrong_labels(label: str, value: str | None, text: str) -> None:
    """The error names the label, its value and what is allowed."""
    labels = {name: given for name, given in OURS.items() if name != label}
    if value is not None:
        labels[label] = value
    with pytest.raises(LabelError) as error:
        policy_of(labels)
    assert text in str(error.value)
    assert label.rpartition(".")[0] in str(error.value)


POLICY = Policy(1, 100)
LOADS = st.lists(st.one_of(st.none(), st.just(math.nan), st.floats(0, 10)), min_size=1, max_size=20)


def decide(scaler: Scaler, now: float, replicas: int, *loads: list[float | None], policy: Policy = POLICY) -> int:
    """Return the decision about a service whose replicas have these loads."""
    return scaler.decide(policy, now, replicas, [Figure(f"figure {n}", each) for n, each in enumerate(loads)]).replicas


@pytest.mark.parametrize(
    ("loads", "expected"),
    [
        ([2.0, 2.0], 4),
        ([1.2, 1.2, 1.2], 4),
        ([1.05, 1.05, 1.05], 3),  # within the tolerance
        ([1.06, 1.06, 1.06], 4),
        ([0.9, 0.9, 0.9], 3),
        ([0.5, 0.5, 0.5, 0.5], 2),
        ([0.0, 0.0, 0.0], 1),
        ([0.2, None], 2),  # 0.6 on average if the other one is fully loaded
        ([0.1, 0.1, None], 2),
        ([3.0, None], 3),  # 1.5 on average if the other one is idle
        ([1.5, None], 2),  # 0.75 on average: the direction would change
        ([None, None], None),
        ([math.nan, math.inf], None),
        ([-1.0], None),
    ],
)
def test_what_one_figure_asks_for(loads: list[float | None], expected: int | None) -> None:
    """The number follows the average load, and missing figures count against a change."""
    assert wanted(Figure("calls", loads)) == expected


@given(loads=LOADS)
def test_a_missing_figure_never_enlarges_a_change(loads: list[float | None]) -> None:
    """With a figure less, the change has the same direction or none, and it is not larger."""
    known = [each for each in loads if each is not None and not math.isnan(each)]
    found, without = wanted(Figure("a", loads)), wanted(Figure("a", known)) if known else None
    assert (found is None) == (not known)
    if found is not None and without is not None:
        average = sum(known) / len(known)
        assert found >= len(loads) or average < 1
        assert found <= len(loads) or average > 1
        assert found <= max(len(loads), without)


def test_it_scales_up_at_once_and_down_later() -> None:
    """A step up is at once and at most a doubling; a pause removes nothing until it has lasted `DOWN_SECONDS`."""
    scaler = Scaler()
    decision = scaler.decide(POLICY, 0, 3, [Figure("calls in flight", [5.0, 5.0, 5.0])])
    assert decision.replicas == 6
    assert decision.why == "calls in flight: 500% of the target on 3 replicas; at most twice as many in one step"
    scaler = Scaler()
    assert decide(scaler, 0, 4, [1.0] * 4) == 4
    assert decide(scaler, 15, 4, [0.75] * 4) == 4
    assert decide(scaler, DOWN_SECONDS, 4, [0.1] * 4) == 4
    assert decide(scaler, DOWN_SECONDS + 10, 4, [0.1] * 4) == 3
    assert decide(scaler, 2 * DOWN_SECONDS + 16, 3, [0.1] * 3) == 1


@pytest.mark.parametrize(("lost", "expected"), [(range(290, 300, 5), 1), (range(235, 300, 5), 4)])
def test_a_lost_answer_does_not_begin_the_time_anew(lost: range, expected: int) -> None:
    """After a load that has ended at 0 s, replicas are removed at 300 s, unless figures were missing for a minute."""
    scaler = Scaler()
    for now in range(0, 301, 5):
        load = None if now in lost else 1.0 if now == 0 else 0.1
        number = decide(scaler, now, 4, [load] * 4)
        assert number == 4 or now > DOWN_SECONDS - 5
    assert decide(scaler, 305, 4, [0.1] * 4) == expected


def test_the_time_is_a_setting() -> None:
    """With 0 seconds, a pause removes replicas at once."""
    policy = policy_of({**OURS, "anyreplica.autoscale.down-seconds": "0"})
    assert policy is not None
    scaler = Scaler()
    assert decide(scaler, 0, 4, [1.0] * 4, policy=policy) == 4
    assert decide(scaler, 5, 4, [0.1] * 4, policy=policy) == 2


def test_the_figure_that_asks_for_most_decides() -> None:
    """A second figure can ask for more, and might do so while it is unknown; only then it changes the result."""
    assert decide(Scaler(), 0, 2, [1.0, 1.0], [2.0, 2.0]) == 4
    assert decide(Scaler(), 0, 2, [2.0, 2.0], [0.1, 0.1]) == 4
    scaler = Scaler()
    assert decide(scaler, 0, 4, [None] * 4) == 4
    assert decide(scaler, 1000, 4, [0.1] * 4, [None] * 4) == 4
    assert decide(scaler, 2000, 4, [2.0] * 4, [None] * 4) == 8


@given(loads=LOADS, minimum=st.integers(1, 5), more=st.integers(0, 30))
def test_the_bounds_hold(loads: list[float | None], minimum: int, more: int) -> None:
    """No figure leads outside of the bounds, also if the service is outside of them."""
    policy = Policy(minimum, minimum + more)
    for replicas in (1, len(loads), 50):
        assert minimum <= decide(Scaler(), 0, replicas, loads, policy=policy) <= minimum + more


@given(loads=st.lists(LOADS, min_size=1, max_size=30), steps=st.lists(st.floats(1, 200), min_size=30, max_size=30))
def test_no_step_up_is_larger_than_a_doubling(loads: list[list[float | None]], steps: list[float]) -> None:
    """Over any course of loads, a step at most doubles the replicas, and never removes all of them."""
    scaler, replicas, now = Scaler(), 3, 0.0
    for each, pause in zip(loads, steps, strict=False):
        now += pause
        decided = decide(scaler, now, replicas, each)
        assert 1 <= decided <= max(2 * replicas, 1)
        replicas = decided
