"""The same echo on other SDKs, as a person runs it; without any toolchain but Python's."""

import json
import sys
from functools import partial
from pathlib import Path

import pytest

from benchmarks.peer.course import MANY, ONE, Course, echo_in
from benchmarks.peer.findings import findings, sentence
from benchmarks.peer.kit import NotBuilt, run
from benchmarks.peer.measure import NOT_BUILT, Measured
from benchmarks.peer.servers import BOTH, SERVERS, choose
from benchmarks.peers import SCRIPT
from benchmarks.sample import Sample
from benchmarks.study.command import main
from benchmarks.study.study import Study, read
from benchmarks.wire import Family
from conftest import ROOT
from conftest import run as run_here

pytestmark = pytest.mark.alone

SHORT = ("--quick", "--rounds", "1", "--seconds", "0.1", "--json", "-")
brief = partial(run_here, sys.executable, "-m", "benchmarks.peers", *SHORT)


def _measured(*arguments: str, **settings: str) -> Study:
    done = brief(*arguments, **settings)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return read(done.stdout)


def test_what_python_serves() -> None:
    """The floor, this template and FastMCP as it comes, in both protocol families, with figures that can be."""
    study = _measured("--only", "ours,fastmcp")
    assert (study.failures, study.skipped) == ([], [])
    costs, times = study.findings.tables
    floor, ours, stock = costs.rows
    assert (floor.name, ours.name, stock.name) == ("floor", "ours", "fastmcp")
    assert set(ours.figures) == set(stock.figures) == {column.name for column in costs.columns}
    assert set(floor.figures) == {"cpu", "floor", "ours", "rate", "memory"}
    assert ours.figures["ours"].median == floor.figures["floor"].median == 1
    for row in costs.rows:
        assert 5 < row.figures["cpu"].median < 100_000
        assert 10 < row.figures["memory"].min <= row.figures["memory"].max < 500
    assert stock.figures["ours"].median > 1
    assert [row.name for row in times.rows] == [
        *("floor-2025-11-25", "ours-2025-11-25", "ours-2026-07-28", "fastmcp-2025-11-25", "fastmcp-2026-07-28"),
    ]
    for row in times.rows:
        assert set(row.figures) == {column.name for column in times.columns}
        assert 0 < row.figures["p50"].median <= row.figures["p99"].median < 10_000
        assert 0 < row.figures["p50_alone"].median <= row.figures["p99_alone"].median < 10_000
        assert row.figures["rate"].median > 1
    assert "wasn't measured" in study.findings.sentence
    assert {"fastmcp", "mcp", "uvicorn"} <= set(study.findings.versions)


def test_a_toolchain_that_is_missing(tmp_path: Path) -> None:
    """The peers that need it are skipped, each with what to install."""
    study = _measured("--only", "go,rust,ts1,ts2", PATH=str(tmp_path), XDG_CACHE_HOME=str(tmp_path))
    assert study.skipped == [
        "Rust SDK (rmcp): cargo is not installed: Rust 1.88 or newer, with cargo",
        "Go SDK: go is not installed: Go 1.25 or newer",
        "TypeScript SDK v2: node is not installed: Node.js 20 or newer, with npm",
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
    """A quick run builds nothing unless asked to; a build that fails is told, and leaves nothing."""
    tools, cache = tmp_path / "tools", tmp_path / "cache"
    tools.mkdir()
    path = _toolchain(tools, "echo started >&2; echo 'main.go:1: an error' >&2; exit 1")
    only = partial(_measured, "--only", "go", PATH=path, XDG_CACHE_HOME=str(cache))
    assert only().skipped == [f"Go SDK: {NOT_BUILT}"]
    (reason,) = only("--build").skipped
    assert reason == "Go SDK: go build -o peer . failed with 1: main.go:1: an error"
    assert not list((cache / "mcp-swarm" / "peers").iterdir())


def test_a_peer_that_ends_at_once(tmp_path: Path) -> None:
    """What was built is kept, and started; that it doesn't serve is its row's failure, and no other's."""
    path = _toolchain(tmp_path, "printf '#!/bin/sh\\necho no port\\nexit 7\\n' > peer; chmod +x peer")
    done = brief("--only", "go", "--build", PATH=path, XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 3
    study = read(done.stdout)
    assert study.failures == ["Go SDK: the process ended with 7: no port"]
    assert study.findings.tables[0].rows[0].figures
    (built,) = (tmp_path / "mcp-swarm" / "peers").iterdir()
    assert [file.name for file in built.iterdir()] == ["peer"]


def _course(name: str, family: Family, cpu: list[float], floor: float = 28) -> Course:
    (server,) = (each for each in SERVERS if each.name == name)
    course = Course.__new__(Course)
    course.server, course.family, course.failure = server, family, ""
    samples = [Sample(1, 0, "", 1, each / 1e6, 1, 2) for each in cpu]
    course.samples = {MANY: samples, ONE: samples}
    course.ratios = [each / floor for each in cpu]
    course.rss = [50.0 for _ in cpu]
    return course


def _of(ours: list[float], go: list[float]) -> Measured:
    courses = {
        "ours": [_course("ours", family, ours) for family in BOTH],
        "go": [_course("go", family, go) for family in BOTH],
    }
    return Measured([server for server in SERVERS if server.name in courses], courses)


@pytest.mark.parametrize(
    ("ours", "go", "says"),
    [
        ([45, 50], [117, 110], "less CPU time than the official Go SDK: 47.5 µs against 114 µs in 2025-11-25, and"),
        ([200, 190], [117, 110], "In no round does a call cost this template less"),
        ([100, 120], [110, 110], "It depends on the round"),
    ],
)
def test_the_claim_is_judged_by_the_figures(ours: list[float], go: list[float], says: str) -> None:
    """By the ratios of the rounds: less, more, or nothing that can be told."""
    found = findings(_of(ours, go), quick=False)
    assert says in found.sentence
    assert found.sentence == sentence(found.tables[0])
    assert found.meaning.startswith(found.sentence)


def test_a_wrong_reply_takes_only_its_own_figures() -> None:
    """Those of the other family stay, beside the reason."""
    measured = _of([45], [117])
    measured.courses["go"][1].failure = "2026-07-28: wrong reply"
    costs, times = findings(measured, quick=False).tables
    ours, go = costs.rows
    assert (go.failure, set(go.figures) & {"cpu", "cpu_2026"}) == ("2026-07-28: wrong reply", {"cpu"})
    assert ours.failure == ""
    assert [row.name for row in times.rows] == ["ours-2025-11-25", "ours-2026-07-28", "go-2025-11-25"]


def test_what_a_reply_must_hold() -> None:
    """The text in both protocol families; the newer one's result has a type."""
    for family, members in zip(BOTH, ({"content"}, {"content", "resultType"}), strict=True):
        assert set(echo_in(family).expected["result"]) == members


def test_choosing() -> None:
    """The floor is always there, in the order of the tables."""
    assert [server.name for server in choose("go, ours")] == ["floor", "ours", "go"]
    with pytest.raises(ValueError, match="'java' is none of floor, ours, rust"):
        choose("java")


def test_a_command_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what it has started."""
    monkeypatch.setattr("benchmarks.peer.kit._PATIENCE", 0.1)
    with pytest.raises(NotBuilt, match=r"sleep 60 & wait took more than 0\.1 s"):
        run(("sh", "-c", "sleep 60 & wait"), ROOT)


@pytest.mark.parametrize(
    ("arguments", "says"), [(["--only", "java"], "'java' is none of"), (["--seconds", "0"], "--seconds")]
)
def test_wrong_arguments(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, and which."""
    with pytest.raises(SystemExit, match="2"):
        main(SCRIPT, arguments)
    assert says in capsys.readouterr().err


def test_locks_name_no_registry() -> None:
    """What is pinned can be had from any; each package has its checksum."""
    peer = ROOT / "benchmarks" / "peer"
    packages = json.loads((peer / "typescript" / "package-lock.json").read_text())["packages"]
    assert all(("integrity" in package and "resolved" not in package) for name, package in packages.items() if name)
    lock = (peer / "rust" / "Cargo.lock").read_text()
    assert "registry+" not in lock
    assert lock.count("[[package]]") == lock.count("\nchecksum = ") + 1
    for line in (peer / "rust" / "Cargo.toml").read_text().partition("[dependencies]\n")[2].splitlines():
        assert '"=' in line
