"""The labels of a service."""

import pytest

from anyreplica.autoscale.policy import LabelError, Policy, policy_of

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
