"""Tests of the check of `make lint` for known vulnerabilities of pinned dependencies."""

import json
import re
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, free_port, run

pytestmark = pytest.mark.servers


class Database(BaseHTTPRequestHandler):
    """A fake OSV server with the two routes that the check uses."""

    bad = ""
    asked: set[str] = set()  # noqa: RUF012  # shared by all requests

    def do_POST(self) -> None:
        """Return the vulnerabilities of the packages in a query."""
        queries = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
        names = [query["package"]["name"] for query in queries]
        self.asked.update(names)
        known = [{"id": "TEST-1", "modified": "2026-01-01T00:00:00Z"}]
        self._send({"results": [{"vulns": known} if name == self.bad else {} for name in names]})

    def do_GET(self) -> None:
        """Return one vulnerability."""
        affected = {"package": {"ecosystem": "PyPI", "name": self.bad}, "ranges": []}
        self._send({"id": "TEST-1", "modified": "2026-01-01T00:00:00Z", "summary": "bad", "affected": [affected]})

    def _send(self, said: Any) -> None:
        body = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@pytest.fixture
def database() -> Iterator[str]:
    """Return the URL of the fake database."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Database)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def audit(url: str) -> Any:
    """Run the check."""
    return run(str(ROOT / ".ci" / "audit"), AUDIT_URL=url, UV=str(Path(sys.prefix, "bin", "uv")))


def test_every_locked_package_is_checked(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check asks about every locked package. If one has a vulnerability, the check names it and exits with 1."""
    locked = set(
        re.findall(r"^([A-Za-z0-9_.-]+)(?:\[.*?\])?==", (ROOT / "locks" / "server.lock").read_text(), re.MULTILINE)
    )
    done = audit(database)
    assert (done.returncode, done.stderr) == (0, "")
    assert "no known vulnerabilities" in done.stdout
    assert locked <= Database.asked
    monkeypatch.setattr(Database, "bad", "jinja2")
    done = audit(database)
    assert done.returncode == 1
    assert "jinja2" in done.stderr
    assert "TEST-1" in done.stderr


def test_an_unreachable_database_is_reported() -> None:
    """An unreachable database is reported, but no failure: `make lint` also works without a network."""
    done = audit(f"http://127.0.0.1:{free_port()}")
    assert done.returncode == 0
    assert done.stdout.startswith("Warning: dependencies were not checked for vulnerabilities: ")
