"""Tests of the time limit for a whole deployment."""

from pathlib import Path

import pytest

from anyreplica.cli.deploy import main


@pytest.mark.parametrize("value", ["ten", "10 s", "-1", "0", "inf", "nan", "1e999"])
@pytest.mark.parametrize("option", [[], ["--rollback"], ["--same-image"]])
def test_a_wrong_time_limit_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], value: str, option: list[str]
) -> None:
    """A time limit that is not a number above 0 is refused with one line, before any docker command."""
    monkeypatch.setenv("DEPLOY_SECONDS", value)
    assert main(option) == 2
    text = f"DEPLOY_SECONDS={value}: not a number of seconds above 0. Nothing has changed.\n"
    assert capsys.readouterr().err == text


@pytest.mark.servers
@pytest.mark.parametrize("value", ["", "0.5", "900", " 15 "])
def test_other_time_limits_are_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], value: str
) -> None:
    """A number above 0 is accepted, and an empty variable is the default. The next step needs docker."""
    monkeypatch.setenv("DEPLOY_SECONDS", value)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main([]) == 1
    assert "docker command is not installed" in capsys.readouterr().err
