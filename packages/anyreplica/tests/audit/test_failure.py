"""An audit log that cannot be written: entries are dropped and counted, or calls are refused."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anyreplica.features.audit.log import MOST_BYTES, MOST_LINES, AuditLog
from conftest import ROOT, until
from tests.audit.calls import a_call, events, ids, lines_in, said, verify

pytestmark = pytest.mark.slow


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A path on a full disk. After `unlink`, the disk is free."""
    path = tmp_path / "audit.jsonl"
    path.symlink_to("/dev/full")
    return path


@pytest.fixture
def log(disk: Path, request: pytest.FixtureRequest) -> Iterator[AuditLog]:
    """Return an audit log on a full disk. The test chooses the value of AUDIT_ON_FAILURE."""
    log = AuditLog(str(disk), "r1", request.param)
    log.start()
    yield log
    log.stop(0)


dropping = pytest.mark.parametrize("log", ["drop"], indirect=True)
refusing = pytest.mark.parametrize("log", ["refuse"], indirect=True)


def failing(log: AuditLog) -> bool:
    """Return whether the log has noticed that writing fails."""
    return log._failing_since is not None


@dropping
def test_entries_up_to_the_limit_are_kept_and_the_others_counted(log: AuditLog, disk: Path) -> None:
    """The log keeps entries up to its limit and counts the others; it writes both when the disk is free."""
    for number in range(MOST_LINES + 250):
        log.note(a_call(request_id=str(number)))
    until(lambda: failing(log) and not log._noted, "the first write fails")
    for _ in range(250):
        log.note(a_call(request_id="late"))
    assert not log.refusing
    assert log._waiting <= MOST_LINES + 1  # plus one entry that the thread is writing
    disk.unlink()
    until(lambda: "dropped" in events(lines_in(disk)[-2:]), "the file contains the number of lost entries")
    log.note(a_call(request_id="next"))
    log.stop()
    lines = lines_in(disk)
    assert verify(lines).intact
    kept = len(ids(lines)) - 1
    assert MOST_LINES <= kept <= MOST_LINES + 1
    assert ids(lines)[: MOST_LINES - 1] == [str(number) for number in range(MOST_LINES - 1)]
    assert ids(lines)[-1] == "next"
    assert events(lines) == ["begun", "dropped", "ended"]
    (dropped,) = [line for line in lines if b'"dropped"' in line]
    assert said(dropped)["count"] == MOST_LINES + 500 - kept


def test_waiting_calls_take_limited_memory(disk: Path) -> None:
    """Waiting calls take a limited amount of memory, even if the thread that writes them does not run."""
    log = AuditLog(str(disk), "r1", "drop")
    big = b'"' + b"x" * 1_000_000 + b'"'
    for _ in range(1000):
        log.note(a_call()._replace(arguments=big))
    assert log._waiting == MOST_BYTES // len(big)
    assert log._dropped == 1000 - log._waiting


@dropping
def test_a_waiting_entry_has_only_the_digest_of_its_arguments(log: AuditLog) -> None:
    """An entry that waits holds only the digest of its arguments."""
    until(lambda: failing(log), "the first write fails")
    for _ in range(3):
        for _ in range(30):
            log.note(a_call({"x": "x" * 1_000_000}))
        until(lambda: not log._noted, "the thread has read all entries")
    assert log._dropped == 0
    assert sum(map(len, log._ready)) < 90 * 500


@refusing
def test_calls_are_refused_until_writing_works_again(log: AuditLog, disk: Path) -> None:
    """The log refuses calls from the first failure until writing works again, which it tries without another call.

    It keeps the entries of calls that are in flight and writes them later. It only counts the refused calls.
    """
    until(lambda: log.refusing, "calls are refused")
    for number in range(100):
        log.note(a_call(request_id=str(number)))
        log.note(a_call(request_id="refused", status=503))
    log.note(a_call(request_id="cancelled", status=503, failed=True))
    disk.unlink()
    until(lambda: not log.refusing, "calls are served again")
    until(lambda: "refused" in events(lines_in(disk)), "the file contains the number of refused calls")
    log.note(a_call(request_id="next"))
    log.note(a_call(request_id="busy", status=503))
    log.stop()
    lines = lines_in(disk)
    assert verify(lines).intact
    assert ids(lines) == [*map(str, range(100)), "cancelled", "next", "busy"]
    assert events(lines) == ["begun", "refused", "ended"]
    (refused,) = [line for line in lines if b'"event":"refused"' in line]
    assert said(refused)["count"] == 100


def test_calls_are_refused_if_the_thread_is_too_slow(disk: Path) -> None:
    """If the thread is too slow, the log refuses calls before its buffer is full; the rest is for calls in flight."""
    log = AuditLog(str(disk), "r1", "refuse")
    noted = 0
    while not log.refusing:
        log.note(a_call())
        noted += 1
    assert MOST_LINES / 2 < noted < MOST_LINES - 500


def test_a_failure_causes_two_warnings(disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log warns once when writing fails and once when writing works again, however often it retries."""
    log = AuditLog(str(disk), "r1", "drop")
    log.start()
    until(lambda: failing(log), "the first write fails")
    first_retry = log._retry_at
    until(lambda: log._retry_at > first_retry, "the second write fails")
    disk.unlink()
    log.stop()
    begins, ends = [record.message for record in caplog.records]
    full = f"cannot write to {disk} (No space left on device)"
    assert begins == f"Audit log: {full}; until a write succeeds, entries are dropped when 10000 wait"
    assert ends.startswith(f"Audit log: writes to {disk} succeed again after ")


@dropping
def test_lost_entries_are_counted_at_the_end(log: AuditLog, disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    """At the end, the log reports the number of lost entries and does not wait until the disk is free."""
    for _ in range(7):
        log.note(a_call())
    until(lambda: failing(log), "the first write fails")
    log.stop(0.1)
    assert caplog.records[-1].message == f"Audit log: 7 entries lost, because {disk} cannot be written"


def test_a_folder_that_is_gone_for_a_while(tmp_path: Path) -> None:
    """The log continues after its folder was missing for a while, for example because a disk was unmounted."""
    path = tmp_path / "disk" / "audit.jsonl"
    path.parent.mkdir()
    log = AuditLog(str(path), "r1", "refuse")
    log.start()
    until(lambda: events(lines_in(path)) == ["begun"], "the file contains the entry of the start")
    away = path.parent.rename(tmp_path / "away")
    log.note(a_call(request_id="meanwhile"))
    until(lambda: log.refusing, "calls are refused")
    away.rename(path.parent)
    until(lambda: ids(lines_in(path)) == ["meanwhile"], "the file contains the entry of the call")
    log.stop()
    assert verify(lines_in(path)).intact
    assert events(lines_in(path)) == ["begun", "ended"]


_LIMITED = """
import json, os, resource, sys, time
from anyreplica.features.audit.log import AuditLog
from tests.audit.calls import a_call

target, mode = sys.argv[1:]
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]

def until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)

log = AuditLog(target, "r1", mode)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
log.start()
for number in range(100):
    log.note(a_call(request_id=str(number)))
until(lambda: log._failing_since is not None)
full = os.stat(sys.argv[1] if target != "stdout" else "/dev/fd/1").st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
until(lambda: log._failing_since is None)
log.stop()
sys.stderr.write(json.dumps({"full": full}))
"""


def limited(target: str, mode: str, stdout: Path) -> Any:
    """Write 100 entries while files may have at most 10,000 bytes, so that a write ends in the middle of an entry."""
    command = [sys.executable, "-c", _LIMITED, target, mode]
    with stdout.open("ab") as stream:
        done = subprocess.run(command, cwd=ROOT, stdout=stream, stderr=subprocess.PIPE, check=True)
    return json.loads(done.stderr.splitlines()[-1])


@pytest.mark.servers
@pytest.mark.parametrize("mode", ["drop", "refuse"])
def test_an_incomplete_entry_is_removed_from_a_file(tmp_path: Path, mode: str) -> None:
    """The log removes an incomplete entry from its file, and writes all entries later."""
    path = tmp_path / "audit.jsonl"
    full = limited(str(path), mode, tmp_path / "stdout")["full"]
    assert 9_000 < full < 10_000
    lines = lines_in(path)
    assert verify(lines).intact
    assert ids(lines) == [*map(str, range(100))]
    assert path.read_bytes()[full - 1 : full] == b"\n"


@pytest.mark.servers
def test_an_incomplete_entry_stays_on_stdout(tmp_path: Path) -> None:
    """On stdout an incomplete entry stays as its own line, which `verify` reports; no entry is lost."""
    path = tmp_path / "stdout"
    assert limited("stdout", "drop", path)["full"] == 10_000
    lines = lines_in(path)
    (problem,) = verify(lines).problems
    assert "is incomplete" in problem
    assert ids(lines) == [str(number) for number in range(100)]


_PIPE = """
import sys, time
from anyreplica.features.audit.log import AuditLog
from tests.audit.calls import a_call

log = AuditLog("stdout", "r1", "refuse")
log.start()
for number in range(1000):
    log.note(a_call(request_id=str(number)))
sys.stdin.readline()
deadline = time.monotonic() + 30
while not log.refusing and time.monotonic() < deadline:
    time.sleep(0.01)
sys.stderr.write("refusing\\n" if log.refusing else "serving\\n")
sys.stdin.readline()
log.stop(float(sys.argv[1]))
"""


def piped(stop_seconds: float) -> subprocess.Popen[str]:
    """Start a process with more calls than its pipe holds; nobody reads its stdout yet.

    After a first line on stdin, it waits until it refuses calls and reports that. After a second line it stops.
    """
    command, pipe = [sys.executable, "-c", _PIPE, str(stop_seconds)], subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


@pytest.mark.servers
def test_a_pipe_that_nobody_reads() -> None:
    """With `refuse`, calls are refused while nobody reads the log's pipe; later all entries are written."""
    with piped(30) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write("go on\n")
        process.stdin.flush()
        warning = "Audit log: cannot write to stdout (no process reads it); until a write succeeds, calls are refused\n"
        assert [process.stderr.readline() for _ in range(2)] == [warning, "refusing\n"]
        output, _ = process.communicate("stop\n", timeout=60)
    lines = output.encode().splitlines(keepends=True)
    report = verify(lines)
    assert report.intact
    assert report.runs[0].ended
    assert ids(lines) == [str(number) for number in range(1000)]


@pytest.mark.servers
def test_a_closed_pipe() -> None:
    """With `refuse`, calls are refused after the log's pipe was closed, and the log stops in order."""
    with piped(0.1) as process:
        assert process.stdout is not None
        process.stdout.close()
        _, errors = process.communicate("go on\nstop\n", timeout=60)
    assert process.returncode == 0
    warning, refusing, lost = errors.splitlines()
    assert warning == "Audit log: cannot write to stdout (Broken pipe); until a write succeeds, calls are refused"
    assert refusing == "refusing"
    assert lost.endswith(" entries lost, because stdout cannot be written")
