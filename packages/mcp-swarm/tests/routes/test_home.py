"""The page for people."""

import subprocess
from pathlib import Path

import httpx
import pytest


def test_the_page_says_how_to_connect_and_what_there_is(local_url: str) -> None:
    """Each client, each component with its description, and the replica."""
    reply = httpx.get(local_url)
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    page = reply.text
    assert f"claude mcp add --transport http template-mcp {local_url}/mcp" in page
    for client in ("Claude Code", "Cursor", "VS Code", "Codex", "curl"):
        assert client in page
    for name in (
        "add",
        "echo",
        "server_info",
        "template://about",
        "template://greeting/{language}/{name}",
        "summarize",
    ):
        assert f"<code>{name}</code>" in page
    assert "Give a message back, as often as asked." in page
    assert f"served by <strong>{reply.headers['X-Served-By']}</strong>" in page


@pytest.mark.parametrize("host", ['x"><script>alert(1)</script>', "evil.example/path", "a b", ""])
def test_a_host_that_is_no_host_is_not_repeated(local_url: str, host: str) -> None:
    """It would stand in a command that people copy."""
    page = httpx.get(local_url, headers={"Host": host}).text
    assert "http://localhost/mcp" in page
    assert "<script" not in page
    assert "evil" not in page


def test_nothing_is_loaded_from_elsewhere(local_url: str) -> None:
    """One self-contained page, and a policy that holds it to that."""
    reply = httpx.get(local_url)
    assert "default-src 'none'" in reply.headers["Content-Security-Policy"]
    assert "src=" not in reply.text
    assert "<link" not in reply.text


@pytest.mark.needs("browser")
@pytest.mark.parametrize("width", [390, 1280])
def test_a_browser_shows_it(local_url: str, tmp_path: Path, width: int) -> None:
    """It renders, narrow and wide, and its style is not what the policy blocks."""
    shot = tmp_path / "page.png"
    done = subprocess.run(
        [
            "chromium",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--enable-logging=stderr",
            f"--user-data-dir={tmp_path / 'profile'}",
            f"--window-size={width},1200",
            f"--screenshot={shot}",
            local_url,
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert shot.exists(), done.stderr
    assert "Content Security Policy" not in done.stderr
    assert shot.stat().st_size > 20_000  # a blank page is a few kB
