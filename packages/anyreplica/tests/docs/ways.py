"""`python -m tests.docs.ways` runs the walkthroughs of the documentation, and prints how much each one takes.

It counts steps, words, files and seconds. A walkthrough uses only the commands and the files of the pages, in their
order. Port 8150 must be free. The walkthroughs to a Swarm run only on a machine that is in a Swarm, and only if their
stacks do not run yet. At the end, they remove the stack. Its images and secrets stay. `git clone` counts as a step.
docs/explanation/first-hour.md has the figures of one run.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.table import Table

from conftest import ROOT, environment, until
from tests.calls import call
from tests.cli.test_init import SERVER
from tests.docs.blocks import blocks
from tests.template.test_image import docker

URL = "http://localhost:8150"
OWNER = ROOT / "docs" / "guides" / "fastmcp-server.md"
README = ROOT / "README.md"
STACK = "mcp-swarm"
_READY_SECONDS = 180.0


@dataclass
class Reader:
    """Somebody who follows the pages in a folder."""

    folder: Path
    programs: Path
    """The folder with the programs of the reader's virtual environment; it need not exist."""
    steps: int = 0
    files: int = 0
    """How many files the reader writes."""
    seconds: float = 0.0
    _running: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def save(self, name: str, text: str) -> None:
        """Write a file of the page."""
        (self.folder / name).write_text(text)
        self.files += 1

    def run(self, commands: str) -> None:
        """Run the commands of a block, each of which is a step."""
        lines = [line for line in commands.replace("\\\n", " ").splitlines() if line.strip()]
        self.steps += len(lines)
        with self._measured():
            done = subprocess.run(
                ["bash", "-ec", "\n".join(lines)],
                cwd=self.folder,
                env=self._environment(),
                capture_output=True,
                text=True,
                check=False,
            )
        if done.returncode:
            raise SystemExit(f"{commands}\n{done.stdout}{done.stderr}")

    def start(self, command: str) -> None:
        """Start local replicas, in the place of those that run, and wait until all of them are ready."""
        self.stop()
        self.steps += 1
        log = self.folder.parent / "log"
        with self._measured():
            output = self._running.enter_context(log.open("w"))
            process = self._running.enter_context(
                subprocess.Popen(
                    command.split(), cwd=self.folder, env=self._environment(), stdout=output, stderr=output, text=True
                )
            )
            self._running.callback(process.terminate)
            until(lambda: "Ctrl-C stops the replicas" in log.read_text(), log.read_text, _READY_SECONDS)

    def stop(self) -> None:
        """Stop the local replicas."""
        self._running.close()

    def project(self) -> int:
        """Return how many files the folder has, without those that programs make there and that git ignores."""
        if (self.folder / ".git").exists():
            command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
            listed = subprocess.run(command, cwd=self.folder, stdout=subprocess.PIPE, text=True, check=True).stdout
            return len(listed.splitlines())
        return len([file for file in self.folder.rglob("*") if file.is_file() and "__pycache__" not in file.parts])

    @contextmanager
    def _measured(self) -> Iterator[None]:
        begin = time.monotonic()
        yield
        self.seconds += time.monotonic() - begin

    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join((str(self.programs), os.environ["PATH"]))
        author = {f"GIT_{who}_{what}": "t@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        own = {"DRAIN_SECONDS": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1", **author}
        return environment(PATH=path, PYTHON=sys.executable, **own)


def _block(page: Path, part: str, language: str = "bash") -> str:
    """Return the first block of a page that has a line with this beginning."""
    found = (each.text for each in blocks(language) if each.page == page)
    return next(text for text in found if re.search(f"^{part}", text, re.MULTILINE))


def _owner(reader: Reader) -> None:
    """Take the server of an owner to three local replicas."""
    (reader.folder / "server.py").write_text(SERVER)
    (reader.folder / "requirements.txt").write_text("fastmcp\n")
    subprocess.run([sys.executable, "-m", "venv", reader.programs.parent], check=True)
    reader.run(_block(OWNER, "pip install").replace("https://git.example.com/anyreplica", f"file://{ROOT}"))
    reader.start(_block(OWNER, "anyreplica run"))
    assert call(URL, "price", {"item": "tea"})["structuredContent"] == {"result": 3}


def _owner_to_swarm(reader: Reader) -> None:
    """Go on from the local replicas to a Swarm."""
    _owner(reader)
    reader.stop()
    reader.run(_block(OWNER, "anyreplica init"))
    commands = _block(OWNER, "docker build")
    if "request_state_keys" in docker("secret", "ls", "--format", "{{.Name}}").split():
        reader.steps += 1
        commands = "".join(line for line in commands.splitlines(keepends=True) if not line.startswith("openssl"))
    _deploy(reader, commands, "shop", {"item": "tea"}, "price", 3)


def _project(reader: Reader) -> None:
    """Make a project in a clone, and run it."""
    reader.run(f"git clone --quiet {ROOT} .")
    copier = f"{sys.executable} -m copier copy --defaults"
    block = _block(README, "pipx run copier").replace("pipx run copier copy", copier)
    *commands, start = block.strip().splitlines()
    reader.run("\n".join(commands))
    reader.folder = reader.folder.parent / "my-server"
    reader.start(start.partition("#")[0])
    assert call(URL, "echo", {"message": "hello"})["structuredContent"] == {"result": "hello"}


def _tool_author(reader: Reader) -> None:
    """Write a tool in a clone, call it on three replicas, and test it."""
    reader.run(f"git clone --quiet {ROOT} .")
    reader.start("make up")
    reader.save("server/tools/words.py", _block(README, "async def word_count", "python"))
    reader.start("make up")
    reader.run(_block(README, "curl -s localhost:8150/mcp"))
    assert call(URL, "word_count", {"text": "any replica answers"})["structuredContent"] == {"result": 3}
    reader.save("tests/test_words.py", _block(README, "def test_word_count", "python"))
    reader.run("make test ARGS=tests/test_words.py")


def _operator(reader: Reader) -> None:
    """Take a clone to a Swarm."""
    reader.run(f"git clone --quiet {ROOT} .")
    commands = _block(README, "docker swarm init").splitlines(keepends=True)
    reader.steps += 1  # the machine is in a Swarm
    _deploy(reader, "".join(commands[1:]), STACK, {"message": "hello"}, "echo", "hello")


def _deploy(reader: Reader, commands: str, stack: str, arguments: dict[str, str], tool: str, result: object) -> None:
    """Deploy a stack, call a tool of it, and remove the stack."""
    if stack in docker("stack", "ls", "--format", "{{.Name}}").split():
        raise SystemExit(f"The stack '{stack}' runs already.")
    try:
        reader.run(commands)
        assert call(URL, tool, arguments)["structuredContent"] == {"result": result}
    finally:
        docker("stack", "rm", stack, check=False)
        until(
            lambda: not docker("ps", "--quiet", "--filter", f"label=com.docker.stack.namespace={stack}"),
            "the stack is gone",
            60,
        )


@dataclass(frozen=True)
class Way:
    """A walkthrough: what the reader reads and does."""

    title: str
    walk: Callable[[Reader], None]
    page: Path
    begin: str
    end: str

    def words(self) -> int:
        """Return how many words the reader reads: the page from one text to another."""
        text = self.page.read_text()
        return len(text[text.index(self.begin) : text.index(self.end)].split())


LOCAL: tuple[Way, ...] = (
    Way("a FastMCP server, to three local replicas", _owner, OWNER, "# From", "\n## Deploy it to a Swarm"),
    Way(
        "a new project, to three local replicas",
        _project,
        README,
        "## A project of your own",
        "\n## Two commands",
    ),
    Way(
        "a first tool: written, called on three replicas, tested",
        _tool_author,
        README,
        "## Two commands",
        "\n## Your first job",
    ),
)
SWARM: tuple[Way, ...] = (
    Way(
        "a FastMCP server, to local replicas and a Swarm", _owner_to_swarm, OWNER, "# From", "Now three replicas answer"
    ),
    Way("the clone, to a Swarm", _operator, README, "## Deploy to a Swarm", "\n## What a server can do"),
)


def main() -> int:
    """Run every walkthrough, print how much each one takes, and return the exit code."""
    ways = LOCAL + SWARM
    if (
        not shutil.which("docker")
        or "active" not in docker("info", "--format", "{{.Swarm.LocalNodeState}}", check=False).split()
    ):
        print("Docker is on no node of a Swarm, so the walkthroughs to a Swarm are left out.", file=sys.stderr)
        ways = LOCAL
    columns = ("walkthrough", "steps", "words to read", "files to write", "files of the project", "seconds")
    table = Table(*columns, title="What the documentation costs")
    for way in ways:
        print(f"{way.title} …", file=sys.stderr)
        with tempfile.TemporaryDirectory() as empty:
            folder = Path(empty, "shop")
            folder.mkdir()
            with Reader(folder, Path(empty, "venv", "bin")) as reader:
                way.walk(reader)
                cells = (reader.steps, way.words(), reader.files, reader.project(), round(reader.seconds))
        table.add_row(way.title, *(f"{each:,}" for each in cells))
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
