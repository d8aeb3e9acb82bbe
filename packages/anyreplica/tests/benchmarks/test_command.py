"""The command line of a study, from its options to its exit code."""

import json
import os
import signal
from pathlib import Path

import pytest

from benchmarks.command import Missing, Run, Script, main, need
from benchmarks.load import LoadError
from benchmarks.study import Table, read
from tests.benchmarks.example import TABLE

_GOOD = Table(TABLE.name, TABLE.title, TABLE.columns, TABLE.rows[:1])
_MISSED = Table(TABLE.name, TABLE.title, TABLE.columns, TABLE.rows[:2])


def _script(found: Table | Exception) -> Script:
    def measure(run: Run) -> list[Table]:
        run.step("a step")
        run.versions["wrk"] = "4"
        if isinstance(found, Exception):
            raise found
        return [found]

    return Script(
        name="example",
        description="Measures 100 % of it.",
        rounds=(1, 4),
        seconds=(0.5, 2),
        packages=("uvicorn",),
        measure=measure,
        pinned=False,
    )


def test_json_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    """With `--json -` stdout has only the JSON, and stderr is empty in a pipe."""
    assert main(_script(_GOOD), ["--json", "-"]) == 0
    out, err = capsys.readouterr()
    study = read(out)
    assert study.tables == [_GOOD]
    assert (study.rounds, study.quick, study.command) == (4, False, "python -m benchmarks.example --json -")
    assert study.versions.keys() == {"uvicorn", "wrk"}
    assert err == ""


def test_options() -> None:
    """The options change what a study measures; the process is on all cores again at the end."""
    cores, handler = os.sched_getaffinity(0), signal.getsignal(signal.SIGINT)
    seen: list[tuple[int, float, bool, int]] = []

    def measure(run: Run) -> list[Table]:
        seen.append((run.rounds, run.seconds, run.quick, len(os.sched_getaffinity(0))))
        return [_GOOD]

    script = Script(name="example", description="", rounds=(1, 4), seconds=(0.5, 2), packages=(), measure=measure)
    for arguments in (["--quick"], ["--rounds", "3", "--seconds", "250ms"]):
        assert main(script, arguments) == 0
    assert seen == [(1, 0.5, True, 1), (3, 0.25, False, 1)]
    assert (os.sched_getaffinity(0), signal.getsignal(signal.SIGINT)) == (cores, handler)


def test_a_report_and_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The report for people has no colours in a pipe, and the file has the JSON."""
    assert main(_script(_GOOD), ["--quick", "--json", str(tmp_path / "x.json")]) == 0
    out = capsys.readouterr().out
    for expected in ("1 round. Quick run: the figures are rough.", "Calls of a tool", "19.6 (18–22)"):
        assert expected in out
    assert "\x1b" not in out
    assert json.loads((tmp_path / "x.json").read_text())["quick"] is True


@pytest.mark.parametrize(
    ("found", "code", "message"),
    [
        (Missing("wrk is not installed"), 2, "example: wrk is not installed\n"),
        (LoadError("no reply"), 3, "✗ failed: no reply\n"),
    ],
)
def test_no_result(capsys: pytest.CaptureFixture[str], found: Exception, code: int, message: str) -> None:
    """A study without a result writes one line on stderr and nothing on stdout."""
    assert main(_script(found), []) == code
    assert capsys.readouterr() == ("", message)


def test_a_case_that_failed(capsys: pytest.CaptureFixture[str]) -> None:
    """If one case fails, the exit code is 3, and the report has the figures of the other cases."""
    assert main(_script(TABLE), []) == 3
    out = capsys.readouterr().out
    assert "✗ failed: a broken one: wrong reply: HTTP 500 <b>" in out
    assert "skipped: granian: granian is not installed" in out
    assert "19.6 (18–22)" in out


@pytest.mark.parametrize(("arguments", "code"), [([], 0), (["--check"], 1)])
def test_a_target_that_is_missed(capsys: pytest.CaptureFixture[str], arguments: list[str], code: int) -> None:
    """The report names a missed target; only `--check` changes the exit code."""
    assert main(_script(_MISSED), arguments) == code
    assert "✗ missed: HTTP | TCP: 0.214, target 0.2" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--rounds", "0"], ["--seconds", "nan"], ["--json", "/nowhere/x"], ["now"]])
def test_wrong_arguments(arguments: list[str]) -> None:
    """Wrong arguments end with exit code 2."""
    with pytest.raises(SystemExit, match="2"):
        main(_script(_GOOD), arguments)


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` names the exit codes."""
    with pytest.raises(SystemExit, match="0"):
        main(_script(_GOOD), ["--help"])
    out = capsys.readouterr().out
    assert "Measures 100 % of it." in out
    assert "Exit codes" in out


def test_a_missing_program() -> None:
    """The message names the package that has the program."""
    with pytest.raises(Missing, match="nothing-such is not installed: apt-get install some-package"):
        need("nothing-such", "some-package")
