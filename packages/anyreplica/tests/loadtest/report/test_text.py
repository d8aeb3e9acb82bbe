"""Tests of the text report."""

import pytest
from rich.console import Console

from anyreplica.load.latency import Samples
from anyreplica.load.report.text import show
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
    """The report has its sections in order."""
    text = shown(SUMMARY)
    places = [text.index(name) for name in ("SUMMARY", "RESPONSE TIMES", "REPLICA DISTRIBUTION", "VERDICT")]
    assert places == sorted(places)
    assert "✗ 1 × HTTP 503\n     draining" in text
    assert "✗ FAILED: 2 of 10 requests failed; 2 of 3 expected replicas took part." in text


@pytest.mark.parametrize("width", [80, 120])
def test_nothing_is_cut_off(width: int) -> None:
    """On a terminal of usual width, no text is cut off."""
    assert "…" not in shown(SUMMARY, width=width)


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


def test_the_report_warns_of_a_generator_at_its_limit() -> None:
    """The report warns if the generator was at its limit."""
    busy = Generator(processes=1, cpu=0.97, lag_p99_ms=1, late_p99_ms=0)
    text = shown(summary(samples(), generator=busy))
    assert "! The load generator may limit the result: it used 97% of a core" in text
