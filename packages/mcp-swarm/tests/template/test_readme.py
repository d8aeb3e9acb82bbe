"""README holds what it says."""

import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from conftest import ROOT, SOURCE, Server, StartServer, environment, run
from mcp_swarm.components.discovery import discover
from mcp_swarm.settings import Settings
from tests.calls import call

pytestmark = pytest.mark.slow

README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def blocks(language: str, start: str) -> list[str]:
    """README's blocks of a language that begin with a word."""
    found = [text for kind, text in BLOCKS if kind == language and text.startswith(start)]
    assert found
    return found


CURL = blocks("bash", "curl")
JOBS = [text for text in CURL if "/jobs" in text]


@pytest.mark.parametrize("command", [*(text for text in CURL if text not in JOBS), *blocks("bash", "for ")])
def test_curl_commands_work(local_replicas: Server, command: str) -> None:
    """Against three local replicas."""
    done = subprocess.run(
        ["bash", "-ec", command.replace("localhost:8150", f"127.0.0.1:{local_replicas.port}")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert '"result"' in done.stdout or '"hostname"' in done.stdout


def test_jobs_work_with_one_replica(start_server: StartServer) -> None:
    """Submitted and listed by curl."""
    server = start_server()
    (command,) = JOBS
    done = run("bash", "-ec", command.replace("localhost:8150", f"127.0.0.1:{server.port}"))
    assert "HTTP/1.1 202 Accepted" in done.stdout, done.stdout + done.stderr
    assert '"jobs":[{"id":' in done.stdout


def test_the_first_job_works(tmp_path: Path, start_server: StartServer) -> None:
    """Copied as it stands."""
    (source,) = [text for kind, text in BLOCKS if kind == "python" and "@job" in text]
    (tmp_path / "first_job.py").write_text(source)
    server = start_server(MCP_COMPONENTS="first_job", PYTHONPATH=str(tmp_path))
    result = call(server.url, "count_words", {"texts": ["one two", "three"]})
    assert result["structuredContent"] == {"one two": 2, "three": 1}


def test_the_first_tool_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copied as it stands."""
    source, _ = blocks("python", "from fastmcp.tools")
    (tmp_path / "first_tool_pack.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    (found,) = discover(Settings(mcp_components=("first_tool_pack",))).components
    assert found.component.name == "word_count"
    del sys.modules["first_tool_pack"]


def test_what_a_tool_may_count_on(tmp_path: Path, start_server: StartServer) -> None:
    """Copied as it stands: a cache that fits the tool, a check that says what is missing."""
    _, source = blocks("python", "from fastmcp.tools")
    (tmp_path / "counting_on.py").write_text(source.replace("https://api.example.com", "http://127.0.0.1:9"))
    server = start_server(MCP_COMPONENTS="counting_on", PYTHONPATH=str(tmp_path))
    told = call(server.url, "exchange_rate", {"currency": "SEK"})
    assert told["isError"]
    assert "127.0.0.1:9" in told["content"][0]["text"]
    deep = httpx.get(f"{server.url}/health/deep")
    assert deep.status_code == 503
    assert deep.json()["checks"]["rates"]["status"] == "failing"


def test_every_make_target_exists() -> None:
    """That README names, in a block or between backticks."""
    code = "\n".join([text for _, text in BLOCKS] + re.findall(r"`([^`\n]+)`", README))
    named = {target for targets in re.findall(r"\bmake ((?:[a-z][a-z-]* ?)+)", code) for target in targets.split()}
    assert {"up", "test", "deploy"} <= named
    listed = subprocess.run(["make", "help"], cwd=ROOT, env=environment(), capture_output=True, text=True, check=True)
    targets = set(re.findall(r"^  make (\S+) ", listed.stdout, re.MULTILINE))
    assert named <= targets


def test_every_file_it_links_to_exists() -> None:
    """Relative links and the paths of the architecture section."""
    for target in re.findall(r"\]\((?!https?:|#)([^)]+)\)", README):
        assert (ROOT / target).exists(), target
    (layout,) = [text for kind, text in BLOCKS if kind == "text" and "server/ " in text]
    folders = [""]  # one for each two spaces of indentation
    for line in layout.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        for name in re.findall(r"\S+", re.split(r"(?<=\S) {3,}", line.strip())[0]):
            assert (ROOT / folders[depth] / name).exists(), folders[depth] + name
            if name.endswith("/"):
                folders[depth + 1 :] = [folders[depth] + name]


def test_the_layout_leaves_no_folder_out() -> None:
    """Of the template and of the package."""
    (layout,) = [text for kind, text in BLOCKS if kind == "text" and "server/ " in text]
    named = set(re.findall(r"\S+/", layout))
    for folder in (ROOT / "server", SOURCE):
        found = {f"{path.name}/" for path in folder.iterdir() if path.is_dir() and not path.name.startswith("_")}
        assert found <= named, found - named


def test_every_test_that_security_names_exists() -> None:
    """File and function; what has no folder or file of its own is in that of the name before it."""
    file, named = ROOT, 0
    for line in (ROOT / "docs" / "explanation" / "security.md").read_text().splitlines():
        if not line.startswith("| "):
            continue
        for name in re.findall(r"`([^`]+)`", line.split("|")[-2]):
            path, _, function = name.partition("::")
            if "/" in path:
                file = ROOT / path
            elif path.endswith(".py"):
                file = file.parent / path
            else:
                function = path
            assert file.exists(), name
            texts = [each.read_text() for each in (file.glob("*.py") if file.is_dir() else [file])]
            assert not function or any(f"def {function}(" in text for text in texts), name
            named += 1
    assert named > 40
