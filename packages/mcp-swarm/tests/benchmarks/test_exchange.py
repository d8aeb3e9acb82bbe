"""The benchmark of the exchange, as a person runs it."""

import json
import signal
import sys
from functools import partial
from pathlib import Path

import pytest

from benchmarks.scenarios import SCENARIOS
from conftest import run
from tests.benchmarks.stopping import leaves_nothing

pytestmark = pytest.mark.alone

script = partial(run, sys.executable, "-m", "benchmarks.exchange")
brief = partial(script, "--quick", "--seconds", "0.1")


def test_the_figures_as_json() -> None:
    """The schema that `benchmarks.results` documents, alone on stdout, and figures that can be."""
    done = script("--quick", "--only", "echo", "--json", "-")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    figures = json.loads(done.stdout)
    assert set(figures) == {
        *("schema", "command", "began", "machine", "quick", "rounds", "seconds", "took", "versions", "log_level"),
        *("scenarios", "process", "failures", "missed"),
    }
    assert (figures["schema"], figures["quick"], figures["rounds"], figures["failures"]) == (1, True, 1, [])
    assert figures["command"] == "python -m benchmarks.exchange --quick --only echo --json -"
    assert 1 < figures["took"] < 90
    assert "fastmcp" in figures["versions"]
    assert set(figures["machine"]) == {"cpu", "cores", "memory_gb", "kernel", "python", "server_core", "load_core"}
    floor, echo = figures["scenarios"]
    assert (floor["name"], floor["target"], floor["met"], echo["name"], echo["target"]) == (
        *("floor", None, None),
        *("echo", 1.3),
    )
    for scenario in (floor, echo):
        assert 10 < scenario["rss_before_mb"] < scenario["rss_after_mb"] + 5 < 500
        assert [load["connections"] for load in scenario["loads"]] == [1, 32]
        for load in scenario["loads"]:
            assert set(load) == {
                *("connections", "requests", "errors", "cpu_us", "ratio", "per_second", "p50_ms", "p99_ms", "busy"),
            }
            assert load["errors"] == 0
            assert load["requests"] > 50
            assert 5 < load["cpu_us"]["median"] < 10_000
            assert 0 < load["p50_ms"]["median"] <= load["p99_ms"]["median"] < 1_000
            assert 0 < load["busy"]["median"] <= 1.1
    assert all(load["ratio"] == {"median": 1, "min": 1, "max": 1} for load in floor["loads"])
    assert echo["met"] == (echo["loads"][1]["ratio"]["median"] <= 1.3)
    assert bool(figures["missed"]) == (not echo["met"])


def test_every_reply_is_right() -> None:
    """Of all scenarios but the one below, in one run; the table has a line for each, without colours."""
    names = [scenario.name for scenario in SCENARIOS if scenario.name != "middleware"]
    done = brief("--only", ",".join(names))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "failed" not in done.stdout
    assert "\x1b[" not in done.stdout
    for scenario in SCENARIOS:
        assert (scenario.name == "middleware") != (scenario.title in done.stdout)


def test_the_middleware_runs() -> None:
    """The reply of that scenario shows whether it did."""
    done = brief("--only", "middleware")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_process_as_a_whole(tmp_path: Path) -> None:
    """Start-up and memory need no rounds; Markdown goes into a file, the table to stdout."""
    file = tmp_path / "table.md"
    done = brief("--only", "start-up,memory", "--markdown", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "resident memory when ready" in done.stdout
    text = file.read_text()
    assert "python -m benchmarks.exchange --quick" in text
    rows = [line for line in text.splitlines() if line.startswith(("| re", "| beside"))]
    assert [row.split(" | ")[0] for row in rows] == [
        "| ready after the start of the process",
        "| beside it: a process that only makes a bare FastMCP",
        "| resident memory when ready",
        "| resident memory after 5,500 calls",
    ]
    assert all("–" not in row for row in rows if "beside" not in row), "each has a figure and a target"
    assert "–" in rows[1]
    assert " s | –" in rows[1], "which has no target"


def test_a_wrong_reply_fails() -> None:
    """Exit code 3, and where the reply differs; no figures that look good."""
    done = brief("--only", "echo", "--expect", "goodbye")
    assert done.returncode == 3
    assert "✗ failed: echo: wrong reply: reply.result.content[0].text is 'hello', not 'goodbye'\n" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert "✓" not in done.stdout


def test_a_wrong_reply_is_told_beside_json() -> None:
    """On stderr, since stdout is taken."""
    done = brief("--only", "echo", "--expect", "goodbye", "--json", "-")
    assert done.returncode == 3
    assert "✗ echo: wrong reply" in done.stderr
    echo = json.loads(done.stdout)["scenarios"][1]
    assert (echo["met"], echo["loads"]) == (None, [])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--only", "ech"], "'ech' is none of echo,"),
        (["--rounds", "0"], "--rounds"),
        (["--seconds", "nan"], "--seconds"),
        (["--json", "nowhere/figures"], "no folder 'nowhere'"),
        (["--json", "-", "--markdown", "-"], "both want stdout"),
    ],
)
def test_wrong_arguments(arguments: list[str], says: str) -> None:
    """Exit code 2, and which."""
    done = script(*arguments)
    assert done.returncode == 2
    assert says in done.stderr


def test_help() -> None:
    """It says what can be chosen and what the exit codes mean."""
    done = script("--help")
    assert done.returncode == 0
    assert "fastmcp-path" in done.stdout
    assert "Exit codes" in done.stdout
    assert "--expect" not in done.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_leaves_no_server(number: signal.Signals) -> None:
    """In the middle of a measurement."""
    leaves_nothing(number, "benchmarks.exchange", "--only", "echo", "--seconds", "30")
