"""The lessons of the tutorial in their order, in one clone: no step breaks a later one.

The test does what the pages say, with their own blocks. It leaves out the steps in a Swarm, which `tests/swarm` shows.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from conftest import ROOT, environment, free_port, until
from tests.docs.blocks import Block, blocks

pytestmark = pytest.mark.system

TUTORIAL = ROOT / "docs" / "tutorial"
_WRITTEN = ("server", "tests")
"""Folders of the clone in which the reader writes."""
_SAVE = re.compile(r"Save this file as `([^`]+)`")
_SIX_NAMES = re.compile(r'^(?:"hostname":"[^"]+"\n){6}$')


class Reader:
    """Somebody who does the steps of the tutorial in a clone.

    Args:
        folder: The clone.
        programs: A folder that comes first in PATH.
    """

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder = folder
        self.port = free_port()
        path = os.pathsep.join((str(programs), os.environ["PATH"]))
        self._settings = environment(PORT=str(self.port), PATH=path)
        self._log = folder.parent / "log"
        self._replicas: subprocess.Popen[bytes] | None = None
        self._blocks: list[Block] = []
        self.last = ""
        """The commands of the last block."""
        self._variables: dict[str, str] = {}

    def open(self, page: str) -> None:
        """Begin to read a page. No block of the page before is left."""
        self.close()
        found = [block for language in ("bash", "python") for block in blocks(language)]
        self._blocks = sorted((block for block in found if block.page == TUTORIAL / page), key=lambda each: each.line)

    def skip(self, *parts: str) -> None:
        """Leave out the next blocks, which have these parts."""
        for part in parts:
            self._next(part)

    def save(self, name: str) -> None:
        """Save the file of the next block under the name that the page gives it."""
        block = self._next("")
        before = "\n".join(block.page.read_text().splitlines()[: block.line])
        assert _SAVE.findall(before)[-1] == name
        (self.folder / name).write_text(block.text)

    def start(self, part: str = "make up") -> str:
        """Start replicas with the command of the next block, in the place of those that run. Return the command."""
        command = self._next(part).text
        self.start_again(command)
        return command

    def start_again(self, command: str) -> None:
        """Do the same with a command of an earlier step, or with one in the text of the page."""
        self.stop()
        with self._log.open("w") as log:
            output: Any = {"stdout": log, "stderr": log}
            self._replicas = subprocess.Popen(
                ["bash", "-c", command], cwd=self.folder, env=self._settings, start_new_session=True, **output
            )
        until(self._are_ready if "make up" in command else self._is_ready, self._log.read_text)

    def run(self, part: str, **variables: str) -> str:
        """Run the commands of the next block, with other values of its variables, and return their output."""
        self.last = self._next(part).text.replace("localhost:8150", f"localhost:{self.port}")
        return self.again(**variables)

    def again(self, **variables: str) -> str:
        """Run the commands of the last block once more. Later commands know these variables, too."""
        self._variables.update(variables)
        text = self.last
        for name in self._variables:
            text = re.sub(rf"^{name}=.*\n", "", text, flags=re.MULTILINE)
        return self.bash(text)

    def bash(self, text: str) -> str:
        """Run commands, and return their output. That of curl has no line about its progress."""
        known = "".join(f"{name}={value}\n" for name, value in self._variables.items())
        command = ["bash", "-e", "-o", "pipefail", "-c", f"exec </dev/null\n{known}{text}"]
        done = subprocess.run(
            command, cwd=self.folder, env=self._settings, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
        return done.stderr + done.stdout if "curl" not in text else done.stdout

    def close(self) -> None:
        """Say that the page is done. No block of it is left."""
        assert not self._blocks, f"not done: {self._blocks[0]}"

    def stop(self) -> None:
        """Stop the replicas with Ctrl-C."""
        if self._replicas is not None:
            os.killpg(self._replicas.pid, signal.SIGINT)
            self._replicas.wait(30)
            self._replicas = None

    def _next(self, part: str) -> Block:
        block = self._blocks.pop(0)
        assert part in block.text, block
        return block

    def _are_ready(self) -> bool:
        return "Ctrl-C stops the replicas" in self._log.read_text()

    def _is_ready(self) -> bool:
        with suppress(httpx.HTTPError):
            return httpx.get(f"http://localhost:{self.port}/readyz").status_code == 200
        return False


@pytest.fixture
def reader(tmp_path: Path, commands: Path) -> Iterator[Reader]:
    """A reader with a clone: copies of the folders in which the reader writes, and links to the other files."""
    clone = tmp_path / "clone"
    clone.mkdir()
    for entry in ROOT.iterdir():
        if entry.name in _WRITTEN:
            shutil.copytree(entry, clone / entry.name, ignore=shutil.ignore_patterns("__pycache__"))
        elif not entry.name.startswith((".venv", ".git", "build")) and "cache" not in entry.name:
            (clone / entry.name).symlink_to(entry)
    (clone / ".venv").symlink_to(sys.prefix)
    found = Reader(clone, commands)
    try:
        yield found
    finally:
        found.stop()


def test_the_lessons_work_one_after_another(reader: Reader) -> None:
    """Each step of the five lessons succeeds in the clone that the steps before it have changed."""
    for lesson in (_first_tool, _first_job, _permission, _deploy, _monitor):
        lesson(reader)
    reader.close()
    reader.stop()
    assert re.search(r"=+ \d+ passed in", reader.bash(".venv/bin/python -m pytest tests"))


def _first_tool(reader: Reader) -> None:
    reader.open("first-tool.md")
    reader.start()
    assert _result(reader.run('"name":"echo"')) == {"result": "hello"}
    assert "server_info" in reader.run("tools/list")
    assert _SIX_NAMES.match(reader.run("/version"))
    reader.stop()
    reader.save("server/tools/words.py")
    assert "word_count" in reader.run("make check")
    reader.start("make dev")
    assert _result(reader.run("word_count")) == {"result": 3}
    tool = reader.folder / "server" / "tools" / "words.py"
    written = tool.read_text()
    tool.write_text(written.replace("len(text.split())", "len(text)"))
    until(lambda: _answers(reader, 13), "the replica answers with the new code")
    tool.write_text(written)
    until(lambda: _answers(reader, 3), "the replica answers with the first code again")
    reader.save("tests/test_words.py")
    assert " passed" in reader.run("pytest tests")


def _answers(reader: Reader, number: int) -> bool:
    """Return whether the last call now has this result. It fails while the replica restarts."""
    with suppress(AssertionError):
        return bool(_result(reader.again()) == {"result": number})
    return False


def _first_job(reader: Reader) -> None:
    reader.open("first-job.md")
    reader.save("server/jobs/words.py")
    reader.start()
    submitted = reader.run("count_words")
    assert "202 Accepted" in submitted
    job = _id(submitted)
    assert job in reader.run("/jobs\n")
    reader.run("/result", JOB=job)
    until(lambda: '"result":{"one two":2' in reader.again(), "the job has its result")
    assert _result(reader.run('"name":"count_words"')) == {"one two": 2, "three": 1}
    job = _id(reader.run("count_words"))
    reader.run("-X DELETE", JOB=job)
    until(lambda: '"cancelled"' in reader.bash(f"curl -s localhost:{reader.port}/jobs/{job}/status"), "it is cancelled")


def _permission(reader: Reader) -> None:
    reader.open("permission.md")
    agent, admin = _keys(reader.run("keys new agent"))
    assert re.findall(r"^(\w+) +valid ", reader.run("keys check"), re.MULTILINE) == ["agent", "admin"]
    start = reader.start("AUTH_ENABLED=true")
    assert "401 Unauthorized" in reader.run("tools/list")
    assert reader.run("tools/list", KEY=agent) == '"name":"add"\n'
    listing = reader.last
    assert {'"name":"echo"', '"name":"word_count"', '"name":"count_words"'} <= set(reader.again(KEY=admin).splitlines())
    assert "Unknown tool: 'echo'" in reader.run("tools/call", KEY=agent)

    # Remove the key of agent, and add one with a scope.
    file = reader.folder / "api_keys"
    file.write_text("".join(line for line in file.read_text().splitlines(keepends=True) if "agent" not in line))
    until(lambda: '"error"' in reader.again(), "the key of agent is refused")
    reader.save("server/tools/reports.py")
    (reporter,) = _keys(reader.run("keys new reporter"))
    reader.start_again(start)
    reader.last = listing
    assert '"name":"read_report"' in reader.again(KEY=reporter)
    assert '"name":"read_report"' not in reader.again(KEY=admin)


def _deploy(reader: Reader) -> None:
    """Do no step of the lesson, because all need a Swarm. The file that it changes is there."""
    reader.open("deploy.md")
    reader.stop()
    assert (reader.folder / "server" / "tools" / "words.py").exists()
    reader.skip("docker swarm init", "make image deploy", "docker stack ps", "/version", "make image deploy")
    reader.skip("REPLICAS=5 make deploy", "make undeploy")


def _monitor(reader: Reader) -> None:
    reader.open("monitor.md")
    reader.start_again("make up")
    assert "PASSED: every request succeeded; replicas that took part: 3" in reader.run("--requests 300")
    assert reader.run("/healthz").count("200 OK") == 3
    assert 'tool="echo"' in reader.run("/metrics")
    reader.skip("make image deploy", "test_swarm_load.py", "make deploy")


def _result(output: str) -> Any:
    """Return the result of a call."""
    return json.loads(output)["result"]["structuredContent"]


def _id(output: str) -> str:
    """Return the id of the job that a reply shows."""
    found: list[str] = re.findall(r'"id":"([^"]+)"', output)
    return found[-1]


def _keys(output: str) -> list[str]:
    """Return the keys that a command has printed."""
    found: list[str] = re.findall(r"mcp_[\w-]{20,}", output)
    return found
