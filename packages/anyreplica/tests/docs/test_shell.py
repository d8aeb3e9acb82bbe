"""The shell blocks of the documentation."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import ROOT, Server, run
from tests.docs.blocks import Block, blocks

_BLOCKS = blocks("bash")
_ELSEWHERE = [block for block in _BLOCKS if block.shown_by]
_FIRST_PAGES = ("README.md", "first-tool.md")
"""Pages whose blocks always run. Of the others, `.ci/run` runs a part."""
_RUN = [
    pytest.param(block, marks=[] if block.page.name in _FIRST_PAGES else pytest.mark.slow)
    for block in _BLOCKS
    if not block.shown_by
]
_PLACE = re.compile(r"localhost:8150|127\.0\.0\.1:8150")


@pytest.fixture(scope="module")
def one_replica(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A single replica, which runs jobs itself."""
    with Server(tmp_path_factory.mktemp("one") / "log") as server:
        yield server


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The project's folder as links, so that files that a command writes are gone with the test."""
    folder = tmp_path / "clone"
    folder.mkdir()
    for entry in ROOT.iterdir():
        if not entry.name.startswith((".venv", ".git", "build")):
            (folder / entry.name).symlink_to(entry)
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


@pytest.mark.parametrize("block", _RUN, ids=str)
def test_the_commands_of_a_block_succeed(
    block: Block, clone: Path, commands: Path, local_replicas: Server, one_replica: Server
) -> None:
    """Each command succeeds at three local replicas, or at a single one if the block uses jobs."""
    server = one_replica if "/jobs" in block.text or "job" in block.page.name else local_replicas
    text = _PLACE.sub(f"127.0.0.1:{server.port}", block.text)
    path = os.pathsep.join((str(commands), str(Path(sys.executable).parent), os.environ["PATH"]))
    done = run("env", f"--chdir={clone}", "bash", "-e", "-o", "pipefail", "-c", f"exec </dev/null\n{text}", PATH=path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"error"' not in done.stdout


@pytest.mark.servers
@pytest.mark.parametrize("block", _ELSEWHERE, ids=str)
def test_the_test_that_a_block_names_exists(block: Block) -> None:
    """The test file that a block names exists, and bash can parse the block."""
    assert (ROOT / block.shown_by).is_file(), block.shown_by
    read = run("bash", "-n", "-c", block.text)
    assert read.returncode == 0, read.stderr


@pytest.fixture(scope="module")
def targets() -> set[str]:
    """All targets of make."""
    return set(re.findall(r"^  make (\S+) ", run("make", "help").stdout, re.MULTILINE))


@pytest.mark.servers
@pytest.mark.parametrize("page", sorted({block.page for block in _BLOCKS}), ids=lambda page: page.name)
def test_make_targets_and_files_exist(page: Path, targets: set[str]) -> None:
    """Each target of make and each file of the repository that a block names exists."""
    text = "\n".join(block.text for block in _BLOCKS if block.page == page)
    code = text + "\n" + "\n".join(re.findall(r"`(make [^`\n]+)`", page.read_text()))
    calls = re.findall(r"\bmake ((?:[a-z][a-z0-9-]*(?: |$))+)", code, re.MULTILINE)
    named = set(" ".join(calls).split())
    assert named <= targets, named - targets
    for file in re.findall(r"(?:deploy|packages|server|examples|tests)/[\w./-]+\.(?:yml|sh|py|cfg)", text):
        if not file.startswith(("server/tools/", "server/jobs/", "tests/")):  # those the reader writes
            assert (ROOT / file).exists(), file
