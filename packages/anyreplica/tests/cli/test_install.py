"""Tests of `anyreplica install` with stand-ins for the clients' programs."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from anyreplica.cli.main import main

pytestmark = pytest.mark.servers  # the stand-ins are processes

URL = "https://mcp.example.com/mcp"
Install = Callable[..., int]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder, and a PATH with a stand-in for each program that writes its arguments to a file."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("claude", "code", "codex", "gemini"):
        (programs / name).write_text('#!/bin/sh\nfor word; do printf "%s\\n" "$word"; done >"$HOME/ran"\n')
        (programs / name).chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    return tmp_path


COMMANDS = {
    "claude-code": ["mcp", "add", "--transport", "http", "weather", URL],
    "codex": ["mcp", "add", "weather", "--url", URL],
    "gemini": ["mcp", "add", "--scope", "user", "--transport", "http", "weather", URL],
    "vscode": ["--add-mcp", json.dumps({"name": "weather", "type": "http", "url": URL})],
}


@pytest.mark.parametrize("client", COMMANDS)
def test_the_command_of_a_client_runs(home: Path, client: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A client with a command of its own is told by it, and `--print` shows a command that does the same."""
    assert main(["install", client, "--url", URL, "--name", "weather"]) == 0
    assert (home / "ran").read_text().splitlines() == COMMANDS[client]
    assert "Added to" in capfd.readouterr().out
    (home / "ran").unlink()
    assert main(["install", client, "--url", URL, "--name", "weather", "--print"]) == 0
    assert not (home / "ran").exists()
    shown = capfd.readouterr().out.partition("\n\nLink: ")[0]
    subprocess.run(["sh", "-c", shown], check=True)
    assert (home / "ran").read_text().splitlines() == COMMANDS[client]


def test_a_token_comes_from_a_variable(
    home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The token is never an argument of ours, and Codex stores only the name of the variable."""
    monkeypatch.setenv("KEY", "s3cret")
    given = ["--url", URL, "--name", "weather", "--token-env", "KEY"]
    assert main(["install", "claude-code", *given]) == 0
    assert (home / "ran").read_text().splitlines()[-2:] == ["--header", "Authorization: Bearer s3cret"]
    assert main(["install", "codex", *given]) == 0
    assert (home / "ran").read_text().splitlines()[-2:] == ["--bearer-token-env-var", "KEY"]
    capfd.readouterr()
    assert main(["install", "claude-code", *given, "--print"]) == 0
    shown = capfd.readouterr().out
    assert "s3cret" not in shown
    subprocess.run(["sh", "-c", shown], check=True)
    assert (home / "ran").read_text().splitlines()[-1] == "Authorization: Bearer s3cret"
    for client in ("vscode", "cursor", "windsurf"):
        assert main(["install", client, *given, "--print"]) == 0
        assert "Bearer <token>" in capfd.readouterr().out
    (home / ".cursor").mkdir()
    (home / ".cursor" / "mcp.json").write_text("{} // mine")
    assert main(["install", "cursor", *given]) == 1
    said = capfd.readouterr().err
    assert "Bearer <token>" in said
    assert "s3cret" not in said
    monkeypatch.delenv("KEY")
    assert main(["install", "claude-code", *given]) == 1
    assert "KEY is not set" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("client", "file", "entry"),
    [
        ("cursor", ".cursor/mcp.json", {"type": "http", "url": URL}),
        ("windsurf", ".codeium/windsurf/mcp_config.json", {"serverUrl": URL}),
    ],
)
def test_the_file_of_a_client_keeps_its_other_servers(
    home: Path, client: str, file: str, entry: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    """The server is added to the file once, other entries stay, and a new file is private."""
    path = home / file
    assert main(["install", client, "--url", URL]) == 0
    assert json.loads(path.read_text()) == {"mcpServers": {"mcp.example.com": entry}}
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text('{"theme": "ä", "mcpServers": {"other": {"command": "x"}}}')
    path.chmod(0o644)
    for said in ("Added weather in", "has weather already."):
        assert main(["install", client, "--url", URL, "--name", "weather"]) == 0
        assert said in capfd.readouterr().out
    assert main(["install", client, "--url", "http://localhost:1/mcp", "--name", "weather"]) == 0
    assert "Replaced weather" in capfd.readouterr().out
    found = json.loads(path.read_text())
    assert found["theme"] == "ä"
    assert found["mcpServers"].keys() == {"other", "weather"}
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("text", ['{"mcpServers": {}, // mine\n}', "[]", '{"mcpServers": []}', "\x00"])
def test_a_file_that_is_not_understood_stays(home: Path, text: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A file with comments or of another form is not changed. The message names it."""
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text(text)
    assert main(["install", "cursor", "--url", URL]) == 1
    assert str(path) in capfd.readouterr().err
    assert path.read_text() == text


def test_what_is_wrong_is_named(home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """A missing program, a refusal of the client, an unknown client and a wrong URL have their own messages."""
    (home / "bin" / "claude").write_text("#!/bin/sh\nexit 7\n")
    assert main(["install", "claude-code"]) == 1
    assert "claude ended with exit code 7" in capfd.readouterr().err
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["install", "gemini"]) == 1
    assert "gemini is not on PATH; `anyreplica install gemini --print`" in capfd.readouterr().err
    for arguments in (["emacs"], ["cursor", "--url", "localhost:8150"]):
        with pytest.raises(SystemExit) as ended:
            main(["install", *arguments])
        assert ended.value.code == 2
    assert "write the URL of the endpoint" in capfd.readouterr().err
