"""Tests of the text reports: of a run, and of a search for the knee."""

import dataclasses

from rich.console import Console

from anyreplica.load.knee import Knee, Stage
from anyreplica.load.latency import Samples
from anyreplica.load.report.output import show, show_knee, show_stage
from anyreplica.load.summary import Summary
from anyreplica.load.watch import Generator
from tests.loadtest.test_summary import SUMMARY, samples, summary


def shown(run: Summary, broken: list[str] | None = None, width: int = 120) -> str:
    """Return the printed report."""
    console = Console(width=width)
    with console.capture() as captured:
        show(run, broken or [], console)
    return captured.get()


def test_the_familiar_sections() -> None:
    """The report has its sections in order, and no text is cut off on a terminal of usual width."""
    text = shown(SUMMARY)
    assert "…" not in text + shown(SUMMARY, width=80)
    places = [text.index(name) for name in ("SUMMARY", "RESPONSE TIMES", "REPLICA DISTRIBUTION", "VERDICT")]
    assert places == sorted(places)
    assert "✗ 1 × HTTP 503\n     draining" in text
    assert "✗ FAILED: 2 of 10 requests failed; 2 of 3 expected replicas took part." in text


def test_a_run_passes_or_fails() -> None:
    """A run without failures passes, unless it breaks a threshold or sends no request."""
    some = Samples()
    for number in range(30):
        some.add(0, 0.01, "", f"r{number % 3}", "tools/call echo", number + 1)
    good = summary(some)
    assert "✓ PASSED: every request succeeded; replicas that took part: 3 (expected: 3)." in shown(good)
    text = shown(good, ["p99<1ms: p99 is 10.0 ms"])
    assert "✗ p99<1ms: p99 is 10.0 ms" in text
    assert "✗ FAILED: a threshold broke." in text
    assert "✗ FAILED: no request was sent" in shown(summary(Samples()))


GOOD, BAD = Stage(100, SUMMARY, []), Stage(200, SUMMARY, ["p99<20ms: p99 is 30.0 ms"])


def searched(*stages: Stage) -> str:
    """Return the printed report of a search."""
    console = Console(width=80)
    with console.capture() as captured:
        for stage in stages:
            show_stage(stage, console)
        show_knee(Knee(list(stages)), console)
    return captured.get()


def test_the_report_shows_the_knee_and_the_broken_threshold() -> None:
    """The report shows each rate that was tried, and the knee with its threshold, or why there is none."""
    text = searched(GOOD, BAD)
    assert "100/s  p50    10.0 ms  p99    30.0 ms  ✓" in text
    assert "200/s  p50    10.0 ms  p99    30.0 ms  ✗ p99<20ms: p99 is 30.0 ms" in text
    assert "100/s is good, 200/s is too much: p99<20ms: p99 is 30.0 ms" in text
    assert "Not found: a threshold broke at every rate." in searched(BAD)
    assert "At least 100/s: the search ended before a threshold broke." in searched(GOOD)


def test_the_reports_warn_of_a_generator_at_its_limit() -> None:
    """The reports warn if the generator was at its limit, which may then be the knee."""
    busy = Generator(processes=1, cpu=0.97, lag_p99_ms=1, late_p99_ms=0)
    text = shown(summary(samples(), generator=busy))
    assert "! The load generator may limit the result: it used 97% of a core" in text
    text = searched(GOOD, dataclasses.replace(BAD, summary=dataclasses.replace(SUMMARY, generator=busy)))
    assert "The load generator may be the limit, not the server" in text
