"""Tests of the check of `make lint` for known vulnerabilities of pinned dependencies."""

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, free_port, run
from tests.downstream.exchange.served import Reply, served

pytestmark = pytest.mark.servers


class Database:
    """A fake OSV server with the two routes that the check uses."""

    def __init__(self) -> None:
        self.bad = ""
        self.asked: set[str] = set()

    def answer(self, path: str, headers: Mapping[str, str], body: bytes) -> Reply:  # noqa: ARG002
        """Return the vulnerabilities of the packages in a query, or the one vulnerability."""
        known = {"id": "TEST-1", "modified": "2026-01-01T00:00:00Z"}
        if not body:
            affected = {"package": {"ecosystem": "PyPI", "name": self.bad}, "ranges": []}
            return Reply(body=json.dumps({**known, "summary": "bad", "affected": [affected]}).encode())
        names = [query["package"]["name"] for query in json.loads(body)["queries"]]
        self.asked.update(names)
        results = [{"vulns": [known]} if name == self.bad else {} for name in names]
        return Reply(body=json.dumps({"results": results}).encode())


def audit(url: str) -> Any:
    """Run the check."""
    return run(str(ROOT / ".ci" / "audit"), AUDIT_URL=url, UV=str(Path(sys.prefix, "bin", "uv")))


def test_every_locked_package_is_checked() -> None:
    """The check asks about every locked package. If one has a vulnerability, the check names it and exits with 1."""
    lock, database = (ROOT / "locks" / "server.lock").read_text(), Database()
    locked = set(re.findall(r"^([A-Za-z0-9_.-]+)(?:\[.*?\])?==", lock, re.MULTILINE))
    with served(database) as host:
        done = audit(f"http://{host}")
        assert (done.returncode, done.stderr) == (0, "")
        assert "no known vulnerabilities" in done.stdout
        assert locked <= database.asked
        database.bad = "jinja2"
        done = audit(f"http://{host}")
    assert done.returncode == 1
    assert "jinja2" in done.stderr
    assert "TEST-1" in done.stderr


def test_an_unreachable_database_is_reported() -> None:
    """An unreachable database is reported, but no failure: `make lint` also works without a network."""
    done = audit(f"http://127.0.0.1:{free_port()}")
    assert done.returncode == 0
    assert done.stdout.startswith("Warning: dependencies were not checked for vulnerabilities: ")
