"""All studies, one after the other."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import suite
from conftest import ROOT, environment, until
from tests.processes import descendants, runs


@pytest.fixture
def codes(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Exit codes by the name of a study, instead of real runs. A study without an exit code here returns 0."""
    found: dict[str, int] = {}
    monkeypatch.setattr(suite, "_run", lambda command: found.get(command[2].removeprefix("benchmarks."), 0))
    return found


def test_a_failure_stops_no_study(codes: dict[str, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The suite runs the other studies, names each failed one, and deletes the figures of an earlier run."""
    codes.update(modes=3, peers=-9)
    for old in ("modes.json", "peers.json", "other.json"):
        (tmp_path / old).write_text("of an earlier run")
    assert suite.main(["--quick", "--into", str(tmp_path)]) == 9
    err = capsys.readouterr().err
    assert "[6/6] scaling" in err
    assert "modes ended with exit code 3" in err
    assert "peers ended with exit code -9" in err
    assert [file.name for file in tmp_path.iterdir()] == ["other.json"]


@pytest.mark.servers
def test_sigterm_ends_the_study(tmp_path: Path) -> None:
    """A signal to the suite ends the study that runs, and the servers of this study."""
    command = [sys.executable, "-m", "benchmarks.suite", "--quick", "--into", str(tmp_path)]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=quiet, stderr=quiet) as process:
        until(lambda: len(descendants(process.pid)) > 1, "the first study has started a server")
        started = descendants(process.pid)
        process.terminate()
        assert process.wait(60) == 143
    assert not runs(started[0])
    until(lambda: not any(map(runs, started)), "the servers have ended")
