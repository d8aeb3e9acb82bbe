"""The audit log writes entries to a file and to stdout."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from anyreplica.features.audit.call import Noted
from anyreplica.features.audit.log import AuditLog
from anyreplica.settings.errors import StartupError
from conftest import ROOT, until
from tests.audit.calls import KEY, a_call, events, ids, lines_in, said, verify


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of the log."""
    return tmp_path / "audit.jsonl"


@pytest.fixture
def log(path: Path) -> Iterator[AuditLog]:
    """Return a log that has started."""
    log = AuditLog(str(path), "r1")
    log.start()
    yield log
    log.stop()


BEGIN = (
    "import subprocess, sys\nfrom anyreplica.features.audit.log import AuditLog\nfrom tests.audit.calls import a_call\n"
)


def python(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in its own process, as a replica does."""
    return subprocess.run([sys.executable, "-c", BEGIN + code], cwd=ROOT, capture_output=True, text=True, check=True)


def test_each_call_has_an_entry_in_order(path: Path) -> None:
    """Each call has an entry, in order, between the first and the last entry of the run."""
    lines = after_a_run(path, *(a_call({"number": number}, request_id=f"{number}") for number in range(1000)))
    assert ids(lines) == [f"{number}" for number in range(1000)]
    assert events(lines) == ["begun", "ended"]
    assert said(lines[0])["event"] == "begun"
    report = verify(lines)
    assert report.intact
    assert report.runs[0].ended


def after_a_run(path: Path, *calls: Noted, **options: Any) -> list[bytes]:
    """Return the lines of a file after a whole run has noted these calls."""
    log = AuditLog(str(path), "r1", **options)
    log.start()
    for call in calls:
        log.note(call)
    log.stop()
    return lines_in(path)


def test_with_a_key_and_an_allow_list(path: Path) -> None:
    """The log uses its key and its allow list of arguments."""
    call = a_call({"message": "shown", "password": "hunter2"})
    lines = after_a_run(path, call, shown=("echo.message",), key=KEY)
    assert verify(lines, KEY).intact
    assert not verify(lines).intact
    assert said(lines[1])["arguments"] == {"message": "shown"}
    assert KEY not in b"".join(lines)


@pytest.mark.parametrize("target", ["", "missing/audit.jsonl"])
def test_a_file_that_can_not_be_opened_stops_the_start(tmp_path: Path, target: str) -> None:
    """A folder, or a file in a missing folder, stops the start; the error has the path and the reason."""
    with pytest.raises(StartupError, match=rf"^AUDIT_LOG: {tmp_path}.* cannot be opened: (Is a|No such file or) dir"):
        AuditLog(str(tmp_path / target), "r1").start()


def test_a_call_that_can_not_be_written_is_counted(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log counts a call that it cannot write, and writes the other calls."""
    lines = after_a_run(path, a_call(time=float("inf")), a_call(request_id="next"))
    assert ids(lines) == ["next"]
    assert said(lines[1])["event"] == "dropped"
    assert said(lines[1])["count"] == 1
    assert [record.message for record in caplog.records] == ["Audit log: no entry could be made for a call"]


def test_threads_lose_nothing(log: AuditLog, path: Path) -> None:
    """No entry is lost when several threads write; each thread's calls stay in order."""

    def note(name: int) -> None:
        for number in range(500):
            log.note(a_call(request_id=f"{name}-{number}"))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(note, range(4)))
    log.stop()
    lines = lines_in(path)
    assert verify(lines).intact
    for name in range(4):
        assert [known for known in ids(lines) if known.startswith(f"{name}-")] == [f"{name}-{n}" for n in range(500)]


def test_all_entries_are_written_at_the_end(path: Path) -> None:
    """All entries are written when `running` ends, even with an error."""
    log = AuditLog(str(path), "r1")

    async def scenario() -> None:
        async with log.running():
            log.note(a_call(request_id="last words"))
            raise ValueError("as it happens")

    with pytest.raises(ValueError, match="as it happens"):
        asyncio.run(scenario())
    assert ids(lines_in(path)) == ["last words"]
    assert events(lines_in(path)) == ["begun", "ended"]


@pytest.mark.servers
def test_waiting_entries_are_written_at_exit(path: Path) -> None:
    """Waiting entries are written when the process exits without stopping the log."""
    python(f"log = AuditLog({str(path)!r}, 'r1')\nlog.start()\nlog.note(a_call(request_id='last words'))\n")
    assert ids(lines_in(path)) == ["last words"]
    assert verify(lines_in(path)).runs[0].ended


def test_a_log_that_never_began_can_be_stopped(path: Path) -> None:
    """A log can be stopped before its start, and twice."""
    log = AuditLog(str(path), "r1")
    log.stop()
    log.start()
    log.stop()
    log.stop()
    assert events(lines_in(path)) == ["begun", "ended"]


def test_a_new_run_refers_to_the_run_before_it(path: Path) -> None:
    """The first entry of a new run refers to the last entry before it, so that the removal of that entry shows."""
    for _ in range(3):
        lines = after_a_run(path, a_call())
    report = verify(lines)
    assert report.intact
    assert [run.begins for run in report.runs] == ["begun"] * 3
    assert said(lines[3])["after"] == said(lines[2])["hash"]
    assert not verify(lines[:2] + lines[3:]).intact


@pytest.mark.servers
@pytest.mark.parametrize("target", ["file", "stdout"])
def test_replicas_share_a_target(path: Path, target: str) -> None:
    """Each replica has its own chain in a shared file or pipe, and no entry is lost or torn."""
    one = (
        f"{BEGIN}"
        f"log = AuditLog({target if target == 'stdout' else str(path)!r}, sys.argv[1])\n"
        "log.start()\n"
        "for number in range(3000): log.note(a_call())\n"
        "log.stop()\n"
    )
    all_of_them = (
        f"started = [subprocess.Popen([sys.executable, '-c', {one!r}, name]) for name in 'abc']\n"
        "sys.exit(any(process.wait() for process in started))\n"
    )
    printed = python(all_of_them).stdout.encode().splitlines(keepends=True)
    report = verify(printed if target == "stdout" else lines_in(path))
    assert report.intact
    assert sorted((run.replica, run.lines) for run in report.runs) == [("a", 3002), ("b", 3002), ("c", 3002)]


def test_a_run_begins_on_a_new_line_after_an_incomplete_entry(path: Path) -> None:
    """After an incomplete entry of a killed process, the next run begins on a new line."""
    after_a_run(path)
    with path.open("ab") as stream:
        stream.write(b'{"audit":1,"time":"2026-')
    assert verify(after_a_run(path)).problems == [
        "line 3 is incomplete: the process was killed while it wrote, the disk was full, or the line was cut"
    ]


@pytest.mark.servers
def test_a_killed_process_leaves_at_most_one_incomplete_entry(path: Path) -> None:
    """A killed process leaves at most one incomplete entry; the rest of its run is intact."""
    code = (
        f"{BEGIN}"
        f"log = AuditLog({str(path)!r}, 'r1')\n"
        "log.start()\n"
        "while True:\n"
        "    if not log._noted: [log.note(a_call()) for _ in range(100)]\n"
    )
    for _ in range(5):
        size = path.stat().st_size if path.exists() else 0
        with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT) as process:
            until(
                lambda size=size: path.exists() and path.stat().st_size > size + 50_000,  # type: ignore[misc]
                "the file has grown by 50,000 bytes",
            )
            process.send_signal(signal.SIGKILL)
    report = verify(lines_in(path))
    assert len(report.runs) == 5
    assert len(report.problems) <= 5
    assert all("is incomplete" in problem or "only the beginning" in problem for problem in report.problems)


def test_after_the_file_was_renamed(log: AuditLog, path: Path) -> None:
    """After the file was renamed, the next entry creates a new file that continues it; only the owner can read both."""
    log.note(a_call(request_id="old"))
    until(lambda: ids(lines_in(path)) == ["old"], "the file contains the old entry")
    moved = path.with_suffix(".1")
    path.rename(moved)
    log.note(a_call(request_id="new"))
    until(lambda: ids(lines_in(path)) == ["new"], "the new file contains the new entry")
    log.stop()
    assert ids(lines_in(moved)) == ["old"]
    assert events(lines_in(path)) == ["continued", "ended"]
    assert [stat.S_IMODE(each.stat().st_mode) for each in (moved, path)] == [0o600] * 2
    for lines in (lines_in(moved), lines_in(path), lines_in(moved) + lines_in(path)):
        assert verify(lines).intact


def test_after_the_file_was_emptied(log: AuditLog, path: Path) -> None:
    """The log continues in a file that was emptied, for example by logrotate's copytruncate."""
    log.note(a_call(request_id="old"))
    until(lambda: ids(lines_in(path)) == ["old"], "the file contains the old entry")
    copied = lines_in(path)
    os.truncate(path, 0)
    log.note(a_call(request_id="new"))
    until(lambda: ids(lines_in(path)) == ["new"], "the emptied file contains the new entry")
    assert verify(lines_in(path)).intact
    assert verify(copied + lines_in(path)).intact


@pytest.mark.servers
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_lines_are_found_among_others(unbuffered: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`verify` finds the entries among other lines; with PYTHONUNBUFFERED, `print` writes line breaks separately."""
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


@pytest.mark.servers
def test_a_closed_stdout_stops_the_start() -> None:
    """A log on a closed stdout does not start."""
    code = (
        "import os, sys\n"
        "from anyreplica import StartupError\n"
        "os.close(1)\n"
        "try: AuditLog('stdout', 'r1').start()\n"
        "except StartupError as error: sys.stderr.write(str(error))\n"
    )
    assert python(code).stderr == (
        "AUDIT_LOG: stdout cannot be opened: Bad file descriptor; set a target that can be written"
    )
