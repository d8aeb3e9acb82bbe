"""A fixture that keeps the machine's settings away from the tests."""

from pathlib import Path

import pytest

from anyreplica import Settings


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Remove the machine's settings, and use the test's own folder for secrets. Return this folder."""
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    folder = tmp_path / "secrets"
    folder.mkdir()
    monkeypatch.setenv("SECRETS_DIR", str(folder))
    return folder
