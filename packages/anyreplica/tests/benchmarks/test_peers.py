"""Tests of the study of other SDKs. They need no toolchain of another language."""

import json
from pathlib import Path

import pytest

from conftest import PACKAGE
from tests.benchmarks.measuring import measured, medians

pytestmark = pytest.mark.alone


def test_it_runs(tmp_path: Path) -> None:
    """Floor, template and FastMCP have figures; a peer without its toolchain is skipped, with what to install."""
    study = measured("peers", "--only", "ours,fastmcp,go,rust,ts1", PATH=str(tmp_path), XDG_CACHE_HOME=str(tmp_path))
    assert study.failures == []
    assert study.skipped == [
        "Rust SDK (rmcp): cargo is not installed: Rust 1.88 or newer, with cargo",
        "Go SDK: go is not installed: Go 1.25 or newer",
        "TypeScript SDK v1: node is not installed: Node.js 20 or newer, with npm",
    ]
    assert not list(tmp_path.iterdir())
    table = study.table("costs")
    assert [row.name for row in table.rows if not row.skipped] == ["floor", "ours", "fastmcp"]
    floor, ours, stock = (medians(table, name) for name in ("floor", "ours", "fastmcp"))
    columns = {column.name for column in table.columns}
    assert columns <= ours.keys() & stock.keys()
    assert columns & floor.keys() == {"cpu", "floor", "ours", "rate", "rate_all", "memory"}
    assert ours["ours"] == ours["ours_2026"] == floor["floor"] == 1
    assert stock["ours"] > 1
    for figures in (floor, ours, stock):
        assert 0 < figures["cpu"] < 100_000
        assert 10 < figures["memory"] < 500


def test_locks_name_no_registry() -> None:
    """The lock files name no registry, so any registry can serve the packages. Each package has a checksum."""
    peers = PACKAGE / "benchmarks" / "peers"
    locks = list(peers.glob("*/package-lock.json"))
    assert len(locks) == 3
    for lock in locks:
        packages = json.loads(lock.read_text())["packages"]
        assert all(("integrity" in package and "resolved" not in package) for name, package in packages.items() if name)
    rust = (peers / "rust" / "Cargo.lock").read_text()
    assert "registry+" not in rust
    assert rust.count("[[package]]") == rust.count("\nchecksum = ") + 1
    for line in (peers / "rust" / "Cargo.toml").read_text().partition("[dependencies]\n")[2].splitlines():
        assert '"=' in line
