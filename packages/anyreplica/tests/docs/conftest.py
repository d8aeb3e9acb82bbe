"""What several tests of the documentation use."""

import shutil
import sys
from pathlib import Path

import pytest


@pytest.fixture
def commands(tmp_path: Path) -> Path:
    """A folder for PATH with a make that never creates this environment again."""
    folder = tmp_path / "commands"
    folder.mkdir()
    make = folder / "make"
    old = " ".join(f"--old-file={sys.prefix}/{name}" for name in (".serves", ".ready"))
    make.write_text(f'#!/bin/sh\nexec {shutil.which("make")} VENV={sys.prefix} {old} "$@"\n')
    make.chmod(0o755)
    return folder
