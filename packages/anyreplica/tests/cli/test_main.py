"""Tests of the command line."""

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from conftest import ROOT, StartServer, run, until
from tests.calls import call, text
from tests.starts import start


def test_check_lists_the_components() -> None:
    """`check` lists the components and exits with 0 without serving."""
    done = start("check")
    assert (done.returncode, done.stderr) == (0, "")
    first, tools, resources, prompts, jobs = done.stdout.splitlines()
    assert first == "template-mcp 0.1.0 (anyreplica 0.2.0): settings and components are valid."
    assert re.fullmatch(r"tools      .*echo.*", tools)
    assert re.fullmatch(r"resources  .*template://about, template://greeting/\{language\}/\{name\}.*", resources)
    assert re.fullmatch(r"prompts    .*summarize.*", prompts)
    assert re.fullmatch(r"jobs       .*generate_report.*", jobs)


def test_check_without_components() -> None:
    """`check` reports a server without components, but this is not an error."""
    assert "no tools, resources, prompts or jobs" in start("check", AUTO_DISCOVER="false").stdout


@pytest.mark.smoke
@pytest.mark.servers
@pytest.mark.parametrize("arguments", [["check"], [], ["--replicas", "2"], ["--reload"], ["worker"]])
def test_a_wrong_setting_stops_every_way_to_start(arguments: list[str]) -> None:
    """Every command to start prints one line on stderr and exits with 3 if a setting is invalid.

    The other tests of refusals run the command in their own process, see `tests.starts`.
    """
    done = run(sys.executable, "-m", "server", *arguments, AUTH_ENABLED="true")
    assert (done.returncode, done.stdout) == (3, "")
    needed = "AUTH_TOKEN, API_KEYS_FILE or AUTH_JWT_ISSUER: required by AUTH_ENABLED=true"
    assert done.stderr == f"{needed}; set one of them, or mount a secret named auth_token\n"


MISSING = "no_such_module"
ADD = f"if it is a package, run make add PACKAGE={MISSING}"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "{folder}/broken.py:3: NameError: name 'boom' is not defined"),
        (
            ["check", "mine:create_app"],
            "{folder}/mine.py:1: ModuleNotFoundError: No module named 'no_such_module'; " + ADD,
        ),
        (["check", "nowhere.mine:create"], "nowhere.mine:create: ModuleNotFoundError: No module named 'nowhere'"),
        (["check", "server:create"], "server:create: server/__init__.py has no 'create'"),
    ],
)
def test_code_that_cannot_be_imported_stops_the_start(tmp_path: Path, arguments: list[str], said: str) -> None:
    """A broken tool, or an app that is missing or imports a missing module, stops the start with its file and line."""
    (tmp_path / "broken.py").write_text("\n\nboom()\n")
    (tmp_path / "mine.py").write_text("import no_such_module\n")
    settings = {} if arguments else {"MCP_COMPONENTS": "broken"}
    done = start(*arguments, PYTHONPATH=str(tmp_path), **settings)
    assert done.returncode == 3
    assert done.stderr == f"{said.format(folder=tmp_path)}\n"


def test_reload_of_a_missing_package() -> None:
    """`--reload` of a missing package prints one line and exits with 3."""
    done = start("--reload", MCP_COMPONENTS="nope.tools")
    assert (done.returncode, len(done.stderr.splitlines())) == (3, 1)
    assert "No module named 'nope'" in done.stderr


def test_a_job_with_the_name_of_a_tool_for_jobs(tmp_path: Path) -> None:
    """`check` refuses a job that has the name of one of the job tools, with one line."""
    job = "import anyreplica\n\n@anyreplica.job(name='job_status')\nasync def mine() -> int: return 1\n"
    (tmp_path / "pack.py").write_text(job)
    done = start("check", MCP_COMPONENTS="pack", PYTHONPATH=str(tmp_path))
    assert done.returncode == 3
    assert done.stderr == "Job 'job_status': anyreplica has a tool with this name; rename the job\n"


def test_a_doubtful_setting_is_a_warning() -> None:
    """A probable mistake causes a warning, not an error. Another program may use a variable with a similar name."""
    done = start("check", AUTH_ENABLE="true")
    assert done.returncode == 0
    assert done.stderr == "Warning: AUTH_ENABLE is not a setting and has no effect; did you mean AUTH_ENABLED?\n"


def test_check_notes_what_a_model_cannot_understand(tmp_path: Path) -> None:
    """A tool without a docstring, and an argument without a type hint."""
    tools = (
        "from fastmcp import FastMCP\n\nmcp = FastMCP('x')\n\n@mcp.tool\ndef one(value, number: int): return value\n"
    )
    (tmp_path / "server.py").write_text(tools)
    done = start("check", str(tmp_path / "server.py"))
    assert done.returncode == 0
    notes = [line for line in done.stderr.splitlines() if line.startswith("Note: ")]
    assert notes == [
        "Note: the tool 'one' has no docstring, so models do not know what it does",
        "Note: 'value' of the tool 'one' has no type hint, so it accepts any value",
    ]


@pytest.mark.servers
def test_the_reader_of_the_output_may_end() -> None:
    """`anyreplica check | head -1` prints no traceback."""
    reading, writing = os.pipe()
    os.close(reading)
    command = (sys.executable, "-m", "server", "check")
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False, timeout=90, cwd=ROOT)
    os.close(writing)
    assert done.returncode == 141
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [["--replicas", "0"], ["--replicas", "x"], ["--nonsense"], ["--replicas", "2", "--reload"], ["--replicas"]],
)
def test_wrong_arguments(arguments: list[str]) -> None:
    """Wrong arguments cause argparse's usage line and exit code 2."""
    done = start(*arguments)
    assert done.returncode == 2
    assert "usage: anyreplica run" in done.stderr


def test_reload_picks_up_a_new_tool(start_server: StartServer, tmp_path: Path) -> None:
    """With `--reload`, as in `make dev`, the replica serves a change of a tool's file."""
    pack = tmp_path / "pack.py"
    tool = "from fastmcp.tools import tool\n\n@tool\nasync def greet() -> str: return 'one'\n"
    pack.write_text(tool)
    server = start_server("--reload", MCP_COMPONENTS="pack", PYTHONPATH=str(tmp_path))
    assert f"One replica on http://localhost:{server.port}/mcp" in server.output
    assert text(call(server.url, "greet")) == "one"
    pack.write_text(tool.replace("one", "two"))
    until(lambda: "Reloading" in server.output, "the log contains 'Reloading'")

    def changed() -> bool:
        try:
            return text(call(server.url, "greet")) == "two"
        except httpx.HTTPError:  # The old replica may close the connection.
            return False

    until(changed, "the replica serves the changed tool")
