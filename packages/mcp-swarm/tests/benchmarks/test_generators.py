"""The load test beside wrk, as a person runs it."""

import sys
from functools import partial
from pathlib import Path

import pytest

from benchmarks.generators import Agreement
from benchmarks.senders import Figures, Job, split
from conftest import run

pytestmark = pytest.mark.alone

script = partial(run, sys.executable, "-m", "benchmarks.generators")


def _figures(rate: float, p50: float = 1) -> Figures:
    return Figures(rate, p50, p99=2, cpu_us=3)


def test_every_generator_sends_the_same_bytes() -> None:
    """Headers and body of the load test's own request, without what every client writes itself."""
    job = Job("http://127.0.0.1:1/mcp", "slow", connections=1, seconds=1, core=0, folder=Path())
    headers, body = split(job.request.payload)
    assert headers == {
        "User-Agent": "mcp-swarm-load-test",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": "2025-11-25",
    }
    assert body.startswith(b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"slow","arguments":{"message"')


def test_agreement_is_by_round() -> None:
    """A machine that is twice as fast in the second round is so for both."""
    agreement = Agreement("echo", wrk=[_figures(100), _figures(200)], load_test=[_figures(95), _figures(190)])
    assert agreement.off(lambda each: each.rate) == pytest.approx(-0.05)
    assert agreement.agrees


@pytest.mark.parametrize(
    ("rate", "p50", "agrees"), [(109, 1, True), (111, 1, False), (89, 1, False), (100, 1.11, False)]
)
def test_how_near_is_near(rate: float, p50: float, agrees: bool) -> None:
    """Ten per cent, of rate and of median latency."""
    assert Agreement("echo", [_figures(100)], [_figures(rate, p50)]).agrees is agrees


@pytest.mark.needs("wrk")
def test_it_runs() -> None:
    """Both servers' tables, every client that is installed; the figures of one short round are no verdict."""
    done = script("--quick", "--connections", "8")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    for expected in ("a tool that takes 10 ms: wrk", "echo, as fast as it goes: load test", "httpx", "(--sdk)"):
        assert expected in done.stdout
    assert "requests/s from one core, not" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "says"), [(["--rounds", "0"], "--rounds"), (["--seconds", "0.5"], "--seconds"), (["now"], "now")]
)
def test_wrong_arguments(arguments: list[str], says: str) -> None:
    """Exit code 2, and which."""
    done = script(*arguments)
    assert done.returncode == 2
    assert says in done.stderr


def test_without_wrk(tmp_path: Path) -> None:
    """Exit code 2, and what to do."""
    done = script("--rounds", "1", PATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (2, "generators: wrk is not installed: apt-get install wrk\n")
