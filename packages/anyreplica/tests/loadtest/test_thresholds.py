"""Tests of thresholds."""

import pytest

from anyreplica.load.thresholds import Threshold
from tests.loadtest.test_summary import SUMMARY

HOLDS = ["p99<200ms", "p99 <= 30", "p50<0.02s", "max==30", "failed==2", "replicas>=2", "evenness>0.5", "evenness>50%"]
HOLDS += ["error_rate<=20%", "error_rate<0.3", "throughput>3/s", "requests!=0", "connections==4"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *((text, "") for text in HOLDS),
        ("p99<20ms", "p99<20ms: p99 is 30.0 ms"),
        ("failed==0", "failed==0: failed is 2"),
        ("replicas>=3", "replicas>=3: replicas is 2"),
        ("error_rate<1%", "error_rate<1%: error_rate is 20.00%"),
        ("throughput>=4.1", "throughput>=4.1: throughput is 4"),
    ],
)
def test_a_threshold_that_is_broken_gives_the_value(text: str, said: str) -> None:
    """For a run of ten calls with two failures, a broken threshold gives the actual value; the others hold."""
    assert Threshold.of(text).broken(SUMMARY) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("p99", "write it like"),
        ("p99<fast", "write it like"),
        ("speed<1", "'speed' is not a metric; the metrics are mean, p50"),
        ("failed<1ms", "failed can't have the unit ms"),
        ("p99<1%", "p99 can't have the unit %"),
        ("", "write it like"),
    ],
)
def test_an_invalid_threshold(text: str, said: str) -> None:
    """An invalid threshold is refused with a hint."""
    with pytest.raises(ValueError, match=said):
        Threshold.of(text)
