"""Tests of the report of a search for the knee."""

import dataclasses

from rich.console import Console

from anyreplica.load.knee import Knee, Stage
from anyreplica.load.report.text import show_knee, show_stage
from anyreplica.load.watch import Generator
from tests.loadtest.test_summary import SUMMARY

GOOD, BAD = Stage(100, SUMMARY, []), Stage(200, SUMMARY, ["p99<20ms: p99 is 30.0 ms"])


def shown(knee: Knee) -> str:
    """Return the printed report."""
    console = Console(width=80)
    with console.capture() as captured:
        for stage in knee.stages:
            show_stage(stage, console)
        show_knee(knee, console)
    return captured.get()


def test_the_report_shows_the_knee_and_the_broken_threshold() -> None:
    """The report shows each rate that was tried, the knee, and the threshold that broke above it."""
    text = shown(Knee([GOOD, BAD]))
    assert "100/s  p50    10.0 ms  p99    30.0 ms  ✓" in text
    assert "200/s  p50    10.0 ms  p99    30.0 ms  ✗ p99<20ms: p99 is 30.0 ms" in text
    assert "100/s is good, 200/s is too much: p99<20ms: p99 is 30.0 ms" in text


def test_the_report_says_that_no_knee_was_found() -> None:
    """Without a knee, the report says that a threshold broke at every rate, or that the search was interrupted."""
    assert "Not found: a threshold broke at every rate." in shown(Knee([BAD]))
    assert "At least 100/s: the search was interrupted before a threshold broke." in shown(Knee([GOOD]))


def test_a_generator_at_its_limit_may_be_the_knee() -> None:
    """The report warns if the generator itself was at its limit."""
    busy = dataclasses.replace(SUMMARY, generator=Generator(1, 0.99, 1.0, 0.0))
    text = shown(Knee([GOOD, dataclasses.replace(BAD, summary=busy)]))
    assert "The load generator may be the limit, not the server" in text
