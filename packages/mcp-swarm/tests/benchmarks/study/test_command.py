"""The command line of a study, from its options to its exit code."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.load import LoadError
from benchmarks.study.command import Missing, Run, Script, main
from benchmarks.study.study import Findings, read
from tests.benchmarks.study.example import PLAIN, STUDY

_GOOD = replace(PLAIN.findings, tables=[replace(PLAIN.findings.tables[0], rows=PLAIN.findings.tables[0].rows[:2])])


def _script(findings: Findings | Exception, *, targets: bool = False) -> Script:
    def measure(run: Run) -> Findings:
        run.step(f"{run.rounds} rounds")
        if isinstance(findings, Exception):
            raise findings
        return findings

    return Script(
        name="example",
        title="An example",
        claim="It shows 100 % of it.",
        description="Does little.",
        rounds=(1, 4),
        steps=lambda _, rounds: rounds,
        measure=measure,
        pinned=False,
        targets=targets,
    )


def test_figures_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Alone on stdout, and read again as they were."""
    assert main(_script(_GOOD), ["--json", "-"]) == 0
    said = capsys.readouterr()
    study = read(said.out)
    assert study.findings == _GOOD
    assert (study.rounds, study.quick, study.command) == (4, False, "python -m benchmarks.example --json -")
    assert said.err == ""


def test_it_leaves_the_process_as_it_was() -> None:
    """On all its cores, and with its own answer to Ctrl-C."""
    cores, handler = os.sched_getaffinity(0), signal.getsignal(signal.SIGINT)
    seen: list[set[int]] = []

    def measure(run: Run) -> Findings:
        seen.append(os.sched_getaffinity(0))
        assert signal.getsignal(signal.SIGINT) is not handler
        return _GOOD

    assert main(replace(_script(_GOOD), measure=measure, pinned=True), ["--json", "-"]) == 0
    assert [len(each) for each in seen] == [1]
    assert (os.sched_getaffinity(0), signal.getsignal(signal.SIGINT)) == (cores, handler)


def test_a_report_and_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """For people, without colours in a pipe; the files beside it."""
    files = ["--json", str(tmp_path / "x.json"), "--html", str(tmp_path / "x.html")]
    assert main(_script(_GOOD), ["--quick", *files]) == 0
    out = capsys.readouterr().out
    for expected in ("An example", "1 round. Quick: the figures are rough.", "Calls of a tool", "4,231 (3,900–5,012)"):
        assert expected in out
    assert "\x1b" not in out
    assert json.loads((tmp_path / "x.json").read_text())["quick"] is True
    assert "An example" in (tmp_path / "x.html").read_text()


@pytest.mark.parametrize(
    ("found", "code", "said"),
    [
        (Missing("h2load is not installed"), 2, "example: h2load is not installed\n"),
        (LoadError("no reply"), 3, "✗ failed: no reply\n"),
    ],
)
def test_when_nothing_can_be_said(capsys: pytest.CaptureFixture[str], found: Exception, code: int, said: str) -> None:
    """One line on stderr, nothing on stdout."""
    assert main(_script(found), []) == code
    assert capsys.readouterr() == ("", said)


def test_a_case_that_failed(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 3, and the others' figures are there."""
    assert main(_script(PLAIN.findings), []) == 3
    out = capsys.readouterr().out
    assert "✗ failed: a broken one: wrong reply: HTTP 500 <b>" in out
    assert "19.6 (18–22)" in out


@pytest.mark.parametrize(("arguments", "code"), [([], 0), (["--check"], 1)])
def test_a_target_that_is_missed(capsys: pytest.CaptureFixture[str], arguments: list[str], code: int) -> None:
    """It is told of; it is a failure only for those who ask."""
    assert main(_script(replace(_GOOD, missed=["slow"]), targets=True), arguments) == code
    assert "✗ missed: slow" in capsys.readouterr().out


def test_the_model_is_worked_out(capsys: pytest.CaptureFixture[str]) -> None:
    """On a terminal, too."""
    main(_script(STUDY.findings), [])
    assert "2,223" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--rounds", "0"], ["--json", "/nowhere/x.json"], ["now"]])
def test_wrong_arguments(arguments: list[str]) -> None:
    """Exit code 2."""
    with pytest.raises(SystemExit) as ended:
        main(_script(_GOOD), arguments)
    assert ended.value.code == 2


def test_help_reads_well(capsys: pytest.CaptureFixture[str]) -> None:
    """Percent signs and all."""
    with pytest.raises(SystemExit):
        main(_script(_GOOD), ["--help"])
    assert "It shows 100 % of it. Does little." in capsys.readouterr().out


def test_a_file_of_another_schema() -> None:
    """Is refused, not misread."""
    with pytest.raises(ValueError, match="schema 0, not 1"):
        read(json.dumps(replace(STUDY, schema=0).as_json()))
