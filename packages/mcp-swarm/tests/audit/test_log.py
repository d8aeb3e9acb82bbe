"""The audit log writes what it is told, to a file and to stdout."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import ROOT, until
from mcp_swarm.audit.log import AuditLog
from mcp_swarm.settings.errors import StartupError
from tests.audit.calls import KEY, a_call, events, ids, lines_in, said, verify


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the log is to be."""
    return tmp_path / "audit.jsonl"


@pytest.fixture
def log(path: Path) -> Iterator[AuditLog]:
    """A log that writes."""
    log = AuditLog(str(path), "r1")
    log.start()
    yield log
    log.stop()


def python(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own, as a replica does."""
    begin = "from mcp_swarm.audit.log import AuditLog\nfrom tests.audit.calls import a_call\n"
    return subprocess.run([sys.executable, "-c", begin + code], cwd=ROOT, capture_output=True, text=True, check=True)


def test_each_call_has_a_line_in_its_order(log: AuditLog, path: Path) -> None:
    """Between the run's beginning and its end."""
    for number in range(1000):
        log.note(a_call({"number": number}, request_id=f"{number}"))
    log.stop()
    lines = lines_in(path)
    assert ids(lines) == [f"{number}" for number in range(1000)]
    assert events(lines) == ["begun", "ended"]
    assert said(lines[0])["event"] == "begun"
    report = verify(lines)
    assert report.intact
    assert report.runs[0].ended


def test_a_line_does_not_wait_for_the_next(log: AuditLog, path: Path) -> None:
    """Nor for the end."""
    log.note(a_call(request_id="only"))
    until(lambda: ids(lines_in(path)) == ["only"], "the line")


def test_with_a_key_and_an_allow_list(path: Path) -> None:
    """Which it passes on."""
    log = AuditLog(str(path), "r1", shown=("echo.message",), key=KEY)
    log.start()
    log.note(a_call({"message": "shown", "password": "hunter2"}))
    log.stop()
    lines = lines_in(path)
    assert verify(lines, KEY).intact
    assert not verify(lines).intact
    assert said(lines[1])["arguments"] == {"message": "shown"}
    assert KEY not in b"".join(lines)


@pytest.mark.parametrize("wrong", [{"key": b"short"}, {"shown": ("echo",)}])
def test_wrong_settings_are_refused(path: Path, wrong: dict[str, object]) -> None:
    """When it is made."""
    with pytest.raises(ValueError, match=r"shorter than 32|is not a pattern"):
        AuditLog(str(path), "r1", **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("target", ["", "missing/audit.jsonl"])
def test_a_file_that_can_not_be_opened_stops_the_start(tmp_path: Path, target: str) -> None:
    """With its path and the reason: a folder, and one that isn't there."""
    with pytest.raises(StartupError, match=rf"^AUDIT_LOG: {tmp_path}.* cannot be opened: (Is a|No such file or) dir"):
        AuditLog(str(tmp_path / target), "r1").start()


def test_nobody_else_may_read_the_file(log: AuditLog, path: Path) -> None:
    """Whatever the umask lets through."""
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_call_that_can_not_be_written_is_counted(log: AuditLog, path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """And the others are written."""
    log.note(a_call(time=float("inf")))
    log.note(a_call(request_id="next"))
    log.stop()
    lines = lines_in(path)
    assert ids(lines) == ["next"]
    assert said(lines[1])["event"] == "dropped"
    assert said(lines[1])["count"] == 1
    assert [record.message for record in caplog.records] == ["Audit log: no entry could be made for a call"]


def test_threads_lose_nothing(log: AuditLog, path: Path) -> None:
    """Each thread's calls in its order."""

    def note(name: int) -> None:
        for number in range(500):
            log.note(a_call(request_id=f"{name}-{number}"))

    threads = [threading.Thread(target=note, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.stop()
    lines = lines_in(path)
    assert verify(lines).intact
    for name in range(4):
        assert [known for known in ids(lines) if known.startswith(f"{name}-")] == [f"{name}-{n}" for n in range(500)]


def test_running_ends_with_all_written(path: Path) -> None:
    """As a replica's lifespan does it, also when that ends with an error."""
    log = AuditLog(str(path), "r1")

    async def scenario() -> None:
        async with log.running():
            log.note(a_call(request_id="last words"))
            raise ValueError("as it happens")

    with pytest.raises(ValueError, match="as it happens"):
        asyncio.run(scenario())
    assert ids(lines_in(path)) == ["last words"]
    assert events(lines_in(path)) == ["begun", "ended"]


def test_what_waits_is_written_at_exit(path: Path) -> None:
    """Of a process that doesn't stop it."""
    python(f"log = AuditLog({str(path)!r}, 'r1')\nlog.start()\nlog.note(a_call(request_id='last words'))\n")
    assert ids(lines_in(path)) == ["last words"]
    assert verify(lines_in(path)).runs[0].ended


def test_a_log_that_never_began_can_be_stopped(path: Path) -> None:
    """And one that has stopped."""
    log = AuditLog(str(path), "r1")
    log.stop()
    log.start()
    log.stop()
    log.stop()
    assert events(lines_in(path)) == ["begun", "ended"]


class TestRuns:
    """Several processes, one file."""

    def test_a_restart_begins_a_run_that_tells_of_the_one_before(self, path: Path) -> None:
        """So that what was cut off in between shows."""
        for _ in range(3):
            log = AuditLog(str(path), "r1")
            log.start()
            log.note(a_call())
            log.stop()
        lines = lines_in(path)
        report = verify(lines)
        assert report.intact
        assert [run.begins for run in report.runs] == ["begun"] * 3
        assert said(lines[3])["after"] == said(lines[2])["hash"]
        assert not verify(lines[:2] + lines[3:]).intact

    def test_replicas_share_a_file(self, path: Path) -> None:
        """Each has its own chain in it, and no line is lost or torn."""
        code = (
            "import sys\n"
            f"log = AuditLog({str(path)!r}, sys.argv[1])\n"
            "log.start()\n"
            "for number in range(3000): log.note(a_call())\n"
            "log.stop()\n"
        )
        begin = "from mcp_swarm.audit.log import AuditLog\nfrom tests.audit.calls import a_call\n"
        started = [subprocess.Popen([sys.executable, "-c", begin + code, name], cwd=ROOT) for name in ("a", "b", "c")]
        assert [process.wait(60) for process in started] == [0, 0, 0]
        report = verify(lines_in(path))
        assert report.intact
        assert sorted((run.replica, run.lines) for run in report.runs) == [("a", 3002), ("b", 3002), ("c", 3002)]

    def test_half_a_line_of_a_killed_process_stays_alone(self, path: Path) -> None:
        """The next run begins on a line of its own."""
        log = AuditLog(str(path), "r1")
        log.start()
        log.stop()
        with path.open("ab") as stream:
            stream.write(b'{"audit":1,"time":"2026-')
        log = AuditLog(str(path), "r1")
        log.start()
        log.stop()
        assert verify(lines_in(path)).problems == [
            "line 3 is incomplete: the process was killed while it wrote, the disk was full, or the line was cut"
        ]

    def test_a_process_that_is_killed_leaves_half_a_line_at_most(self, path: Path) -> None:
        """However often; each run but for its end is there."""
        code = (
            "from mcp_swarm.audit.log import AuditLog\n"
            "from tests.audit.calls import a_call\n"
            f"log = AuditLog({str(path)!r}, 'r1')\n"
            "log.start()\n"
            "while True:\n"
            "    if not log._noted: [log.note(a_call()) for _ in range(100)]\n"
        )
        for _ in range(5):
            size = path.stat().st_size if path.exists() else 0
            with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT) as process:
                until(lambda size=size: path.exists() and path.stat().st_size > size + 50_000, "lines")  # type: ignore[misc]
                process.send_signal(signal.SIGKILL)
        report = verify(lines_in(path))
        assert len(report.runs) == 5
        assert len(report.problems) <= 5
        assert all("is incomplete" in problem or "only the beginning" in problem for problem in report.problems)


class TestRotation:
    """Somebody puts the file away while it is written to."""

    def test_by_renaming_it(self, log: AuditLog, path: Path) -> None:
        """The next line makes a new file, which says that it continues the old one."""
        log.note(a_call(request_id="old"))
        until(lambda: ids(lines_in(path)) == ["old"], "the line")
        moved = path.with_suffix(".1")
        path.rename(moved)
        log.note(a_call(request_id="new"))
        until(lambda: ids(lines_in(path)) == ["new"], "the line in the new file")
        log.stop()
        assert ids(lines_in(moved)) == ["old"]
        assert events(lines_in(path)) == ["continued", "ended"]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        for lines in (lines_in(moved), lines_in(path), lines_in(moved) + lines_in(path)):
            assert verify(lines).intact

    def test_by_removing_it(self, log: AuditLog, path: Path) -> None:
        """The chain tells that something came before."""
        log.note(a_call(request_id="old"))
        until(lambda: ids(lines_in(path)) == ["old"], "the line")
        path.unlink()
        log.note(a_call(request_id="new"))
        until(lambda: ids(lines_in(path)) == ["new"], "the line in the new file")
        (run,) = verify(lines_in(path)).runs
        assert run.begins == "continued"
        assert run.seq == 3

    def test_by_emptying_it(self, log: AuditLog, path: Path) -> None:
        """As logrotate's copytruncate does."""
        log.note(a_call(request_id="old"))
        until(lambda: ids(lines_in(path)) == ["old"], "the line")
        copied = lines_in(path)
        os.truncate(path, 0)
        log.note(a_call(request_id="new"))
        until(lambda: ids(lines_in(path)) == ["new"], "the line in the emptied file")
        assert verify(lines_in(path)).intact
        assert verify(copied + lines_in(path)).intact


class TestStdout:
    """Where whatever runs the container collects it."""

    @pytest.mark.parametrize("unbuffered", ["", "1"])
    def test_lines_are_found_among_others(self, unbuffered: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Those that the process prints; with PYTHONUNBUFFERED text and line break one after the other."""
        monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
        code = (
            "log = AuditLog('stdout', 'r1')\n"
            "print('Loading', end='', flush=True)\n"
            "log.start()\n"
            "for number in range(3000):\n"
            "    log.note(a_call(request_id=str(number)))\n"
            "    if number % 10 == 0: print('Called', flush=True)\n"
            "log.stop()\n"
        )
        lines = python(code).stdout.encode().splitlines(keepends=True)
        report = verify(lines)
        assert report.intact
        assert report.lines == 3002
        assert sum(b"Called" in line for line in lines) == 300

    def test_replicas_share_it(self) -> None:
        """A pipe, into which each writes pieces that stay whole."""
        code = (
            "import subprocess, sys\n"
            "code = '''if 1:\n"
            "    import sys\n"
            "    from mcp_swarm.audit.log import AuditLog\n"
            "    from tests.audit.calls import a_call\n"
            "    log = AuditLog('stdout', sys.argv[1])\n"
            "    log.start()\n"
            "    for number in range(3000): log.note(a_call())\n"
            "    log.stop()\n"
            "'''\n"
            "started = [subprocess.Popen([sys.executable, '-c', code, name]) for name in 'abc']\n"
            "sys.exit(any(process.wait() for process in started))\n"
        )
        report = verify(python(code).stdout.encode().splitlines())
        assert report.intact
        assert sorted((run.replica, run.lines) for run in report.runs) == [("a", 3002), ("b", 3002), ("c", 3002)]

    def test_without_one_it_does_not_start(self) -> None:
        """The descriptor is closed."""
        code = (
            "import os, sys\n"
            "from mcp_swarm import StartupError\n"
            "os.close(1)\n"
            "try: AuditLog('stdout', 'r1').start()\n"
            "except StartupError as error: sys.stderr.write(str(error))\n"
        )
        assert python(code).stderr == (
            "AUDIT_LOG: stdout cannot be opened: Bad file descriptor; set a target that can be written"
        )
