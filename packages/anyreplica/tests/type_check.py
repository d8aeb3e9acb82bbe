"""mypy, as `make lint` runs it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from conftest import PACKAGE, ROOT, environment


def accepted_by_mypy(folder: Path) -> tuple[bool, str]:
    """Check a folder in strict mode, with the cache of `make lint`. Return whether it has no error, and the output."""
    command = [sys.executable, "-m", "mypy", "--config-file", str(PACKAGE / "pyproject.toml"), str(folder)]
    cached: Any = {"cwd": PACKAGE, "env": environment(MYPYPATH=str(ROOT))}
    checked = subprocess.run(command, capture_output=True, text=True, check=False, **cached)
    return checked.returncode == 0, checked.stdout
