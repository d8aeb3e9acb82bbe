"""Tests of the page at `/` without the console (`CONSOLE=off`)."""

import base64
import html
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, unquote

import httpx
import pytest

from conftest import Server

pytestmark = pytest.mark.servers


def _files(url: str) -> list[tuple[str, str, str, dict[str, str]]]:
    """Return each client that reads a file: its name, the file, the key of all servers, and the entry of a server."""
    return [
        ("Cursor", "~/.cursor/mcp.json", "mcpServers", {"type": "http", "url": url}),
        ("Windsurf", "~/.codeium/windsurf/mcp_config.json", "mcpServers", {"serverUrl": url}),
    ]


@pytest.fixture(scope="module")
def plain_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a replica without the console."""
    with Server(tmp_path_factory.mktemp("plain") / "log", CONSOLE="off") as server:
        yield server.url


def test_the_page_shows_clients_and_components(plain_url: str) -> None:
    """The page shows a command for each client, the components and the replica, and loads nothing from elsewhere."""
    reply = httpx.get(plain_url)
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    page = reply.text
    assert f"claude mcp add --transport http template-mcp {plain_url}/mcp" in page
    for client in ("Claude Code", "VS Code", "Codex", "Gemini CLI", "curl"):
        assert client in page
    for client, file, key, server in _files(f"{plain_url}/mcp"):
        (text,) = re.findall(
            rf"<h3>{client} <small>{file}</small></h3>.*?<pre tabindex=\"0\"><code>(.+?)</code>", page, re.DOTALL
        )
        assert json.loads(html.unescape(text)) == {key: {"template-mcp": server}}
    (cursor,) = re.findall(r'href="cursor://anysphere.cursor-deeplink/mcp/install\?(.+?)"', page)
    query = parse_qs(html.unescape(cursor))
    assert query["name"] == ["template-mcp"]
    assert json.loads(base64.b64decode(query["config"][0])) == {"url": f"{plain_url}/mcp"}
    (vscode,) = re.findall(r'href="vscode:mcp/install\?(.+?)"', page)
    assert json.loads(unquote(vscode)) == {"name": "template-mcp", "type": "http", "url": f"{plain_url}/mcp"}
    uris = ("template://about", "template://greeting/{language}/{name}")
    for name in ("add", "echo", "server_info", "summarize", *uris):
        assert f"<code>{name}</code>" in page
    assert "Return a message, once or several times." in page
    assert f"served by <strong>{reply.headers['X-Served-By']}</strong>" in page
    assert "default-src 'none'" in reply.headers["Content-Security-Policy"]
    assert "unsafe-inline" not in reply.headers["Content-Security-Policy"]
    assert "src=" not in page
    assert "<link" not in page


def test_a_message_to_the_page_gets_404(plain_url: str) -> None:
    """Its sender has the wrong URL. With 405, clients would believe that the URL is right."""
    assert httpx.head(plain_url).status_code == 200
    assert httpx.post(plain_url, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).status_code == 404


@pytest.mark.parametrize("host", ['x"><script>alert(1)</script>', "evil.example/path", "a b", ""])
def test_an_invalid_host_is_not_shown(plain_url: str, host: str) -> None:
    """The page does not show an invalid Host header, because people copy the page's commands."""
    page = httpx.get(plain_url, headers={"Host": host}).text
    assert "http://localhost/mcp" in page
    assert "<script" not in page
    assert "evil" not in page


@pytest.mark.needs("browser")
@pytest.mark.parametrize("width", [390, 1280])
def test_a_browser_renders_the_page(plain_url: str, tmp_path: Path, width: int) -> None:
    """A browser renders the page, narrow and wide, and the Content-Security-Policy does not block its style."""
    shot = tmp_path / "page.png"
    options = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    options += f"--disable-component-update --disable-sync --enable-logging=stderr --user-data-dir={tmp_path}/profile"
    done = subprocess.run(
        ["chromium", *options.split(), f"--window-size={width},1200", f"--screenshot={shot}", plain_url],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert shot.exists(), done.stderr
    assert "Content Security Policy" not in done.stderr
    assert shot.stat().st_size > 20_000  # A blank page has only a few kilobytes.
