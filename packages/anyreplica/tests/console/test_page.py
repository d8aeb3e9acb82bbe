"""Tests of the document that is the console: one request, its own script only, and small."""

import gzip
import subprocess
from pathlib import Path

import httpx
import pytest
from fastmcp import FastMCP

from anyreplica.features.console import feature as console_page
from conftest import PACKAGE
from tests.auth.test_crossing import served

FOLDER = Path(console_page.__file__).parent / "page"
MODULES = PACKAGE / "tests" / "conformance" / "node_modules"


def test_the_script_has_every_module_after_those_that_it_imports() -> None:
    """Each module of the folder is in the script once, and nothing of the module syntax is left."""
    names = [file.stem for file in FOLDER.glob("*.js")]
    assert sorted(console_page._MODULES) == sorted(names)
    seen = set[str]()
    for name in console_page._MODULES:
        text = (FOLDER / f"{name}.js").read_text()
        imported = {found.split('"')[1][2:-3] for found in text.splitlines() if found.startswith("import {")}
        assert {each for each in imported if each in names} <= seen, name
        seen.add(name)
    script = console_page.script()
    assert "\nexport " not in script
    assert 'from "./' not in script.replace('import("./', "")
    assert "</script" not in script


@pytest.mark.smoke
def test_the_page_is_one_small_document(local_url: str) -> None:
    """The page loads nothing, allows only its own script and style, and has at most 120 kB over the wire."""
    reply = httpx.get(local_url, headers={"Accept-Encoding": "gzip"})
    assert len(gzip.compress(reply.content)) < 120_000
    assert int(reply.headers["Content-Length"]) < 120_000
    policy = reply.headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "connect-src 'self';" in policy
    assert " src=" not in reply.text
    assert f"claude mcp add --transport http template-mcp {local_url}/mcp" in reply.text  # also without JavaScript


def test_a_page_is_compressed_once_a_second_at_most() -> None:
    """A caller can invent a new host for each request. Only one page per second is compressed, and a few are kept."""
    now, rendered = 100.0, list[str]()

    def render(base: str) -> str:
        rendered.append(base)
        return f"<html>{base}</html>"

    documents = console_page.Documents(render, lambda: now)
    known, compressed = documents.document("http://known")
    assert compressed is not None
    assert gzip.decompress(compressed) == known == b"<html>http://known</html>"
    for number in range(1000):
        assert documents.document(f"http://{number}") == (f"<html>http://{number}</html>".encode(), None)
        assert documents.document("http://known") == (known, compressed)
    assert rendered.count("http://known") == 1
    for number in range(100):
        now += 1
        assert documents.document(f"http://{number}")[1] is not None
    assert len(documents._kept) <= 8


def test_each_host_gets_a_page_of_its_own() -> None:
    """A caller can send any host, and gets the page with this address."""
    with served(FastMCP("server")) as client:
        hosts = [f"host-{number}.example" for number in range(20)]
        replies = [client.http.get("/", headers={"Host": host, "Accept-Encoding": "gzip"}) for host in hosts]
        plain = client.http.get("/", headers={"Host": hosts[0], "Accept-Encoding": "identity"})
    for host, reply in zip([*hosts, hosts[0]], [*replies, plain], strict=True):
        assert f"http://{host}/mcp" in reply.text
        assert reply.headers["Vary"].lower() == "accept-encoding"
    assert "Content-Encoding" not in plain.headers


@pytest.mark.servers
@pytest.mark.needs("node")
def test_the_types_of_the_modules_are_checked() -> None:
    """TypeScript finds no error in the modules."""
    node, tsc = MODULES / ".bin" / "node", MODULES / "typescript" / "bin" / "tsc"
    done = subprocess.run([node, tsc, "--project", PACKAGE], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout
