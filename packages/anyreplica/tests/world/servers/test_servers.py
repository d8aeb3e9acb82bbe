"""Public servers answer alike when `fastmcp run` serves them and when replicas of anyreplica do."""

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from conftest import environment, free_port
from tests.calls import BOTH
from tests.world.environments import ConflictError, with_anyreplica
from tests.world.processes import Program
from tests.world.servers.answers import Mode, answers, differences
from tests.world.servers.known import known
from tests.world.servers.public import PROXY, SERVERS, PublicServer

MODES: Sequence[Mode] = ("legacy", "2026-07-28")
REPLICAS = ("--replicas", "2")
SERVED = [each for each in SERVERS if not each.conflict and not each.broken]


def named(server: PublicServer) -> str:
    """Return the id of a test."""
    return f"{server.name}-{server.anonymous}" if server.anonymous != 200 else server.name


def entry(server: PublicServer, python: Path, folder: Path) -> Path:
    """Write the file that a command runs into a new folder, which is a git repository. Return the file."""
    subprocess.run(["git", "init", "--quiet", "--initial-branch", "main", folder], check=True)
    if server.kind == PROXY:
        file = folder / "client.json"
        command = {"command": str(python), "args": ["-m", server.code], "cwd": str(folder)}
        file.write_text(json.dumps({"mcpServers": {"public": command}}))
    else:
        file = folder / "entry.py"
        file.write_text(server.code)
    return file


def started(server: PublicServer, python: Path, folder: Path) -> tuple[Program, Program]:
    """Start a server with `fastmcp run`, and two replicas of it with `anyreplica run`, in folders of their own."""
    programs, port = python.parent, free_port()
    options = ("--transport", "http", "--port", str(port), "--no-banner")
    theirs = program(server, python, folder / "fastmcp", port, programs / "fastmcp", *options)
    ours = program(server, python, folder / "anyreplica", free_port(), programs / "anyreplica", *REPLICAS)
    return theirs, ours


def program(server: PublicServer, python: Path, folder: Path, port: int, command: Path, *options: str) -> Program:
    """Start a command with a server. The folder is the working directory and the home of the user."""
    variables = {**server.variables, "HOME": str(folder), "MCP_PORT": str(port)}
    file = entry(server, python, folder)
    return Program([command, "run", file, *options], folder, folder / "log", port, **variables)


@pytest.mark.parametrize("server", SERVED, ids=named)
def test_a_public_server_answers_alike(server: PublicServer, tmp_path: Path) -> None:
    """Lists, schemas, resources, prompts, calls and wrong calls, with both protocol families."""
    python = with_anyreplica(server.package, *server.more)
    theirs, ours = started(server, python, tmp_path)
    ignored = "|".join(filter(None, (server.ignored, rf"{re.escape(str(tmp_path))}/\w+", r"127\.0\.0\.1:\d+")))
    with theirs, ours:
        first, second = (anonymous(each.url) for each in (theirs, ours))
        assert first.status_code == second.status_code == server.anonymous
        if server.anonymous != 200:
            assert challenge(first) == challenge(second)
            return
        for mode in MODES:
            expected, found = (answers(each.url, mode, server.calls) for each in (theirs, ours))
            assert len(expected["tools"]) > 0
            unknown = {
                place: values
                for place, values in differences(expected, found, ignored).items()
                if not known(place, *values)
            }
            assert not unknown, json.dumps({"mode": mode, **unknown}, indent=1)


@pytest.mark.parametrize("server", [each for each in SERVERS if each.conflict], ids=named)
def test_a_server_that_excludes_our_versions_is_not_installed(server: PublicServer) -> None:
    """One installation of both is refused, and the message names the requirement. Nothing is upgraded in place."""
    with pytest.raises(ConflictError) as raised:
        with_anyreplica(server.package, *server.more)
    name, version = map(re.escape, server.package.split("=="))
    stated = re.search(rf"{name}[=>]={version} depends on (\S+) and anyreplica", str(raised.value))
    assert stated, str(raised.value)
    assert stated[1] == server.conflict


@pytest.mark.parametrize("server", [each for each in SERVERS if each.broken], ids=named)
def test_a_server_that_does_not_start_fails_alike(server: PublicServer, tmp_path: Path) -> None:
    """With both commands, the message says why."""
    python = with_anyreplica(server.package, *server.more)
    file = entry(server, python, tmp_path)
    for command in (["fastmcp", "run", "--transport", "http"], ["anyreplica", "run"]):
        line: list[str | Path] = [python.parent / command[0], *command[1:], file]
        done = subprocess.run(line, env=environment(), capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode != 0
        assert server.broken in " ".join((done.stdout + done.stderr).split())


def anonymous(url: str) -> httpx.Response:
    """Send `initialize` without a token."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    return httpx.post(f"{url}/mcp", json=asked, headers={"Accept": BOTH}, timeout=60)


def challenge(reply: httpx.Response) -> str:
    """Return what a refusal tells a client that it must do, without the port."""
    return str(reply.headers["www-authenticate"]).replace(f":{reply.url.port}", "").partition(",")[0]
