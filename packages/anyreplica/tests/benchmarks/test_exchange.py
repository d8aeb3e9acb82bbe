"""The study of the exchange, with real servers."""

import signal
from dataclasses import replace

import pytest

from benchmarks.command import main
from benchmarks.exchange import course
from benchmarks.exchange.__main__ import SCRIPT
from benchmarks.process import Process
from benchmarks.scenarios import ECHO, SCENARIOS, Scenario, choose
from tests.benchmarks.measuring import measured, medians
from tests.benchmarks.stopping import leaves_nothing

pytestmark = pytest.mark.alone


@pytest.mark.parametrize("scenarios", [SCENARIOS[:9], SCENARIOS[9:]])
def test_every_reply_is_right(scenarios: tuple[Scenario, ...]) -> None:
    """Each scenario gets figures for both loads, as a ratio to the floor."""
    study = measured("exchange", "--seconds", "0.1", "--only", ",".join(scenario.name for scenario in scenarios))
    assert study.failures == []
    for table in (study.table("cost"), study.table("alone")):
        assert [row.name for row in table.rows] == ["floor", *(scenario.name for scenario in scenarios)]
        for row in table.rows:
            figures = medians(table, row.name)
            assert 5 < figures["cpu"] < 100_000
            assert 0 < figures["p50"] <= figures["p99"] < 10_000
            assert figures["rate"] > 1
            assert figures["ratio"] == 1 if row.name == "floor" else figures["ratio"] > 0.5
    targets = {row.name: row.figures["target"].median for row in study.table("cost").rows if "target" in row.figures}
    assert targets == {scenario.name: scenario.target for scenario in scenarios if scenario.target}


def test_it_runs_for_the_whole_process() -> None:
    """With `--only start-up,memory`, the study has only the figures of a whole process."""
    (table,) = measured("exchange", "--only", "start-up,memory").tables
    assert 0 < medians(table, "start-up")["figure"] < 60
    assert 0 < medians(table, "start-up-bare")["figure"] < 60
    assert 20 < medians(table, "memory-ready")["figure"] < medians(table, "memory-after")["figure"] + 5 < 500
    assert [row.figures["target"].median for row in table.rows if "target" in row.figures] == [1, 100, 100, 2]


def test_a_wrong_reply_fails(capsys: pytest.CaptureFixture[str]) -> None:
    """If a reply is wrong, the exit code is 3, and the report has the difference instead of a figure."""
    other = {"result": {"content": [{"text": "goodbye"}]}}
    chosen = [replace(ECHO, expected=other)], set[str]()
    script = replace(SCRIPT, options=lambda parser: parser.set_defaults(only=chosen))
    assert main(script, ["--quick", "--seconds", "0.1"]) == 3
    out = capsys.readouterr().out
    assert "wrong reply: reply.result.content[0].text is 'hello', not 'goodbye'\n" in out
    assert "✓" not in out


def test_a_missing_log_line_fails(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not log each request has no figures."""
    monkeypatch.setattr(Process, "requests_logged", lambda _: 0)
    monkeypatch.setattr(course, "_LOG_PATIENCE", 0.1)
    assert main(SCRIPT, ["--quick", "--seconds", "0.1", "--only", "echo"]) == 3
    assert "requests are in the access log" in capsys.readouterr().out


def test_choosing() -> None:
    """`--only` takes names and patterns; a name that matches nothing gets a list of the right ones."""
    scenarios, whole = choose("memory,list*, echo")
    assert ([scenario.name for scenario in scenarios], whole) == (["echo", "list", "list-2026"], {"memory"})
    assert choose("*") == (list(SCENARIOS), {"start-up", "memory"})
    with pytest.raises(Exception, match="'nothing' is none of echo, "):
        choose("echo,nothing")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_leaves_no_server(number: signal.Signals) -> None:
    """A signal during a measurement ends the servers, too."""
    leaves_nothing(number, "benchmarks.exchange", "--only", "echo", "--seconds", "30")
