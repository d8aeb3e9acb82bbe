"""README's first steps, as a newcomer takes them: a tool, its call on every replica, its test, a job."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT, StartServer, run, until
from tests.calls import call
from tests.docs.blocks import blocks

pytestmark = pytest.mark.system

README = ROOT / "README.md"


def source(language: str, part: str) -> str:
    """Return the only block of README that contains a text."""
    (found,) = [block.text for block in blocks(language) if block.page == README and part in block.text]
    return found


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    """A folder with README's tool as a module."""
    (tmp_path / "words.py").write_text(source("python", "def word_count"))
    return tmp_path


def test_three_replicas_answer_the_first_tool(pack: Path, start_server: StartServer) -> None:
    """README's curl command gets the number of words from each of the three replicas."""
    server = start_server("--replicas", "3", MCP_COMPONENTS="words", PYTHONPATH=str(pack))
    until(lambda: "Ctrl-C stops the replicas" in server.output, "all replicas are ready")
    command = source("bash", "word_count").strip().replace("localhost:8150", f"127.0.0.1:{server.port}")
    replicas: set[str] = set()

    def all_have_answered() -> bool:
        done = subprocess.run(["bash", "-ec", f"{command} -i"], capture_output=True, text=True, check=True)
        head, _, body = done.stdout.partition("\n\n")
        assert json.loads(body)["result"]["structuredContent"] == {"result": 3}
        replicas.update(re.findall(r"x-served-by: (\S+)", head.lower()))
        return len(replicas) == 3

    until(all_have_answered, "each replica has answered")


def test_the_first_test_passes(pack: Path) -> None:
    """README's test passes with the fixtures of the template's tests."""
    shutil.copy(ROOT / "tests" / "conftest.py", pack)
    (pack / "test_words.py").write_text(source("python", "def test_word_count"))
    command = ("env", f"--chdir={pack}", sys.executable, "-m", "pytest", "test_words.py", "--rootdir", str(pack))
    done = run(*command, MCP_COMPONENTS="words", PYTHONPATH=f"{pack}{os.pathsep}{ROOT}")
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_the_first_job_works(tmp_path: Path, start_server: StartServer) -> None:
    """Local replicas run README's job, as a tool and with README's commands."""
    (tmp_path / "first_job.py").write_text(source("python", "def count_words"))
    server = start_server("--replicas", "2", MCP_COMPONENTS="first_job", PYTHONPATH=str(tmp_path))
    until(lambda: server.output.count(" - Ready") == 3, "the replicas and their worker are ready")
    result = call(server.url, "count_words", {"texts": ["one two", "three"]})
    assert result["content"][0]["text"] == "3", result
    assert result["structuredContent"] == {"result": 3}
    block = source("bash", "count_words").replace("localhost:8150", f"127.0.0.1:{server.port}")
    submit, look = [line for line in block.splitlines() if line.startswith("curl")]
    identity = json.loads(_output(submit))["id"]
    look = look.partition("#")[0].replace("ID", identity)
    until(lambda: json.loads(_output(look)).get("result") == 3, "the job has its result")


def _output(command: str) -> str:
    done = subprocess.run(["bash", "-ec", command], capture_output=True, text=True, check=True)
    return done.stdout
