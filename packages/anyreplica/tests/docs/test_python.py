"""The Python blocks of the documentation."""

from pathlib import Path

import pytest

from tests.docs.blocks import blocks
from tests.type_check import accepted_by_mypy

pytestmark = [pytest.mark.servers, pytest.mark.slow]


def test_python_blocks_have_the_right_types(tmp_path: Path) -> None:
    """mypy accepts each block as a separate module, in strict mode."""
    found = blocks("python")
    assert found
    for number, block in enumerate(found):
        (tmp_path / f"block_{number}.py").write_text(f"# {block}\n{block.text}")
    accepted, said = accepted_by_mypy(tmp_path)
    places = "\n".join(f"block_{number}.py is {block}" for number, block in enumerate(found))
    assert accepted, said + places
