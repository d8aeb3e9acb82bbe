"""The Python blocks of the documentation."""

import subprocess
import sys
from pathlib import Path

import pytest

from conftest import PACKAGE, ROOT, environment
from tests.docs.blocks import blocks

pytestmark = [pytest.mark.servers, pytest.mark.slow]


def test_python_blocks_have_the_right_types(tmp_path: Path) -> None:
    """mypy accepts each block as a separate module, in strict mode."""
    found = blocks("python")
    assert found
    for number, block in enumerate(found):
        (tmp_path / f"block_{number}.py").write_text(f"# {block}\n{block.text}")
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", str(PACKAGE / "pyproject.toml"), str(tmp_path)],
        cwd=PACKAGE,
        env=environment(MYPYPATH=str(ROOT)),
        capture_output=True,
        text=True,
        check=False,
    )
    places = "\n".join(f"block_{number}.py is {block}" for number, block in enumerate(found))
    assert checked.returncode == 0, checked.stdout + places
