"""All studies, one after the other."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import suite
from conftest import ROOT, environment, until


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Exit codes of the studies, by name, in place of the studies; 0 of those that aren't in it."""
    codes: dict[str, int] = {}
    monkeypatch.setattr(suite, "_run", lambda command: codes.get(command[2].removeprefix("benchmarks."), 0))
    return codes


def test_one_that_fails_stops_no_other(
    told: dict[str, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor does one that was killed; both are named, and what an earlier run left of them is gone."""
    told.update(modes=3, peers=-9)
    for old in ("modes.json", "peers.html", "other.json"):
        (tmp_path / old).write_text("of an earlier run")
    assert suite.main(["--quick", "--into", str(tmp_path)]) == 9
    said = capsys.readouterr().err
    assert "[6/6] scaling" in said
    assert "modes ended with exit code 3" in said
    assert "peers ended with exit code -9" in said
    assert [file.name for file in tmp_path.iterdir()] == ["other.json"]


@pytest.mark.parametrize("code", [130, 143, -15])
def test_one_that_is_told_to_stop_stops_all(
    told: dict[str, int], tmp_path: Path, capsys: pytest.CaptureFixture[str], code: int
) -> None:
    """As Ctrl-C does."""
    told.update(transports=code)
    assert suite.main(["--into", str(tmp_path)]) == (code if code > 0 else 143)
    assert "[3/6]" not in capsys.readouterr().err


def test_sigterm_ends_the_study_too(tmp_path: Path) -> None:
    """And what it started."""
    command = [sys.executable, "-m", "benchmarks.suite", "--quick", "--into", str(tmp_path)]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=quiet, stderr=quiet) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        until(lambda: bool(children.read_text()), "the first study runs")
        (study,) = children.read_text().split()
        process.terminate()
        assert process.wait(60) == 143
    assert not Path(f"/proc/{study}").exists()
