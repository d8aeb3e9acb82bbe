"""Tests of the study of other SDKs. They need no toolchain of another language."""

import json
from functools import partial
from pathlib import Path

import pytest

from benchmarks.peers.__main__ import NOT_BUILT, echo_in
from benchmarks.peers.build import NotBuilt, run
from benchmarks.wire import Family
from conftest import ROOT
from tests.benchmarks.measuring import measured, medians

pytestmark = pytest.mark.alone

brief = partial(measured, "peers")


def test_it_runs() -> None:
    """The floor, this template and FastMCP have figures in both protocol families."""
    study = brief("--only", "ours,fastmcp")
    assert (study.failures, study.skipped) == ([], [])
    table = study.table("costs")
    assert [row.name for row in table.rows] == ["floor", "ours", "fastmcp"]
    floor, ours, stock = (medians(table, name) for name in ("floor", "ours", "fastmcp"))
    columns = {column.name for column in table.columns}
    assert columns <= ours.keys() & stock.keys()
    assert columns & floor.keys() == {"cpu", "floor", "ours", "rate", "memory"}
    assert ours["ours"] == ours["ours_2026"] == floor["floor"] == 1
    assert stock["ours"] > 1
    for figures in (floor, ours, stock):
        assert 5 < figures["cpu"] < 100_000
        assert 10 < figures["memory"] < 500


def test_a_missing_toolchain(tmp_path: Path) -> None:
    """A peer without its toolchain is skipped, and the reason says what to install."""
    study = brief("--only", "go,rust,ts1", PATH=str(tmp_path), XDG_CACHE_HOME=str(tmp_path))
    assert study.skipped == [
        "Rust SDK (rmcp): cargo is not installed: Rust 1.88 or newer, with cargo",
        "Go SDK: go is not installed: Go 1.25 or newer",
        "TypeScript SDK v1: node is not installed: Node.js 20 or newer, with npm",
    ]
    assert study.failures == []
    assert not list(tmp_path.iterdir())


def _toolchain(folder: Path, build: str) -> str:
    go = folder / "go"
    go.write_text(f"#!/bin/sh\nif [ $1 = version ]; then echo go version 0; exit; fi\n{build}\n")
    go.chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


def test_building(tmp_path: Path) -> None:
    """A quick run builds only with `--build`; a build that fails is reported and is not used."""
    path = _toolchain(tmp_path, "echo 'main.go:1: an error' >&2; exit 1")
    go = partial(brief, "--only", "go", PATH=path, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert go().skipped == [f"Go SDK: {NOT_BUILT}"]
    assert go("--build").skipped == ["Go SDK: go build -o peer . failed with 1: main.go:1: an error"]
    assert go().skipped == [f"Go SDK: {NOT_BUILT}"]


def test_a_peer_that_ends(tmp_path: Path) -> None:
    """A peer that does not serve causes a failure of its own row, and the floor still has figures."""
    path = _toolchain(tmp_path, "printf '#!/bin/sh\\necho no port\\nexit 7\\n' > peer; chmod +x peer")
    study = brief("--only", "go", "--build", code=3, PATH=path, XDG_CACHE_HOME=str(tmp_path))
    assert study.failures == ["Go SDK: the process ended with 7: no port"]
    assert study.versions["go"] == "go version 0"
    assert study.table("costs").rows[0].figures


def test_members_of_a_reply() -> None:
    """The expected result has the content in both protocol families, and in the newer one also a type."""
    for family, members in zip(Family, ({"content"}, {"content", "resultType"}), strict=True):
        assert set(echo_in(family).expected["result"]) == members


def test_a_command_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build has a time limit."""
    monkeypatch.setattr("benchmarks.peers.build._PATIENCE", 0.1)
    with pytest.raises(NotBuilt, match=r"sleep 5 took more than 0\.1 s"):
        run(("sleep", "5"), ROOT)


def test_locks_name_no_registry() -> None:
    """The lock files name no registry, so any registry can serve the packages. Each package has a checksum."""
    peers = ROOT / "benchmarks" / "peers"
    packages = json.loads((peers / "typescript" / "package-lock.json").read_text())["packages"]
    assert all(("integrity" in package and "resolved" not in package) for name, package in packages.items() if name)
    lock = (peers / "rust" / "Cargo.lock").read_text()
    assert "registry+" not in lock
    assert lock.count("[[package]]") == lock.count("\nchecksum = ") + 1
    for line in (peers / "rust" / "Cargo.toml").read_text().partition("[dependencies]\n")[2].splitlines():
        assert '"=' in line
