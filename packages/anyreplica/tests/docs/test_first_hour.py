"""The way of an owner of a FastMCP server: from `server.py` and `requirements.txt` to three replicas and to an image.

This way takes only the commands of `docs/guides/fastmcp-server.md`. `tests/swarm/test_init.py` goes on from there.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import ROOT, environment, free_port, until
from tests.calls import call, get
from tests.cli.test_init import SERVER
from tests.docs import ways
from tests.docs.blocks import blocks
from tests.template.test_image import docker, running, wait_healthy

PAGE = ROOT / "docs" / "guides" / "fastmcp-server.md"
FIGURES = ROOT / "docs" / "explanation" / "first-hour.md"
COMMANDS = {block.text.split()[1]: block.text for block in reversed(blocks("bash")) if block.page == PAGE}
"""The blocks of the page, by the second word of each: `install`, `run`, `init` and (the first build) `build`."""


@pytest.mark.parametrize(
    ("end", "steps", "words"), [("## Deploy it to a Swarm", 3, 700), ("Now three replicas answer", 6, 1500)]
)
def test_the_way_is_short(end: str, steps: int, words: int) -> None:
    """Count the commands and the words up to three local replicas, and up to a Swarm."""
    text = PAGE.read_text().partition(f"\n{end}")[0]
    commands = re.findall(r"^(?:anyreplica|pip|docker|openssl) .*", text, re.MULTILINE)
    assert len(commands) <= steps
    assert len(text.split()) <= words


def figures(row: str) -> list[str]:
    """Return the cells of a row of the page with the figures."""
    (found,) = re.findall(rf"^\| {re.escape(row)} \| (.*) \|$", FIGURES.read_text(), re.MULTILINE)
    cells: list[str] = found.split(" | ")
    return cells


@pytest.mark.parametrize("way", [*ways.LOCAL, *ways.SWARM], ids=lambda way: way.title)
def test_the_page_has_the_figures_of_each_walkthrough(way: ways.Way) -> None:
    """The command and the page name the same walkthroughs. The words of a page change by less than a tenth."""
    words = int(figures(way.title)[1].replace(",", ""))
    assert abs(words - way.words()) < words / 10, f"{FIGURES.name} says {words} words; now they are {way.words()}"


def test_readme_says_how_long_it_takes() -> None:
    """README and the comparison with an earlier commit have the seconds of the measured walkthroughs."""
    readme = (ROOT / "README.md").read_text()
    local, swarm = figures("a FastMCP server, to three local replicas"), figures(ways.SWARM[0].title)
    assert f"| {local[-1]} s, {local[0]} commands: install, run |" in readme
    assert f"| {swarm[-1]} s, with {int(swarm[0]) - int(local[0])} more commands: " in readme
    named = ("steps", "words to read", "seconds")
    for place, cells, limits in (("three local replicas", local, (3, 700)), ("a Swarm", swarm, (6, 1500, 300))):
        for name, figure, most in zip(named, (*cells[:2], cells[-1]), limits, strict=False):
            _, now, limit = figures(f"to {place}: {name}")
            assert now == figure, name
            assert limit == f"{most:,}", name
            assert int(now) <= most, name


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a server, and an environment with what the page installs beside it."""
    folder = tmp_path_factory.mktemp("owner") / "shop"
    folder.mkdir()
    (folder / "server.py").write_text(SERVER)
    (folder / "requirements.txt").write_text("fastmcp\n")
    subprocess.run([sys.executable, "-m", "venv", folder.parent / "venv"], check=True)
    bash(folder, COMMANDS["install"].replace("https://git.example.com/anyreplica", f"file://{ROOT}"))
    return folder


def in_its_environment(folder: Path, **settings: str) -> dict[str, str]:
    """Return the environment variables of a user who has activated the environment."""
    path = os.pathsep.join((str(folder.parent / "venv" / "bin"), os.environ["PATH"]))
    return {**environment(**settings), "PATH": path, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def bash(folder: Path, commands: str) -> str:
    """Run commands in a folder and return their output."""
    done = subprocess.run(
        ["bash", "-ec", commands],
        cwd=folder,
        env=in_its_environment(folder),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def replicas(shop: Path) -> Iterator[str]:
    """The URL of three local replicas."""
    assert "price" in bash(shop, "anyreplica check server.py")
    port = free_port()
    log = shop.parent / "log"
    with (
        log.open("w") as output,
        subprocess.Popen(
            COMMANDS["run"].split(),
            cwd=shop,
            env=in_its_environment(shop, MCP_PORT=str(port)),
            stdout=output,
            stderr=output,
        ) as process,
    ):
        try:
            until(lambda: "Ctrl-C stops the replicas" in log.read_text(), "all replicas are ready")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGTERM)


@pytest.mark.system
def test_the_server_runs_as_three_replicas(replicas: str) -> None:
    """The owner's tool answers, and each of three replicas answers requests."""
    assert call(replicas, "price", {"item": "tea"})["structuredContent"] == {"result": 3}
    seen = set[str]()

    def all_have_answered() -> bool:
        seen.add(get(f"{replicas}/version").headers["X-Served-By"])
        return len(seen) == 3

    until(all_have_answered, "each of the three replicas has answered")


@pytest.mark.system
@pytest.mark.alone
@pytest.mark.needs("docker")
def test_the_server_runs_in_an_image(shop: Path) -> None:
    """`init` and `docker build` make an image that serves without a file system that it can write to."""
    said = bash(shop, COMMANDS["init"])
    build, *others = COMMANDS["build"].splitlines()[:3]
    for command in (build, *others):
        assert command in said  # the command prints what the page shows
    bash(shop, build)
    port = free_port()
    options = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL")  # noqa: S108  # in the container
    try:
        with running(*options, "--publish", f"127.0.0.1:{port}:8000", "shop:1") as name:
            wait_healthy(name)
            assert call(f"http://127.0.0.1:{port}", "price", {"item": "tea"})["structuredContent"] == {"result": 3}
    finally:
        docker("rmi", "shop:1")
