"""The processes that a study measures."""

import os
import time
from pathlib import Path

import httpx
import pytest

from benchmarks.process import ProcessError, answers, children_of, replica

pytestmark = pytest.mark.alone


CORE = min(os.sched_getaffinity(0))


def _ticks_of(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_the_clock_of_cpu_time_is_the_kernels_count(tmp_path: Path) -> None:
    """The clock has the user and system time of `/proc/<pid>/stat`."""
    with replica("echo", CORE, tmp_path) as process:
        seconds = process.wait_ready()
        clock = process.cpu_seconds()
        ticks = _ticks_of(process.pid) / os.sysconf("SC_CLK_TCK")
        assert ticks == pytest.approx(clock, abs=0.05)
        assert 0.1 < clock <= seconds + 0.1
        assert os.sched_getaffinity(process.pid) == {CORE}
        threads = [int(thread.name) for thread in Path(f"/proc/{process.pid}/task").iterdir()]
        assert all(os.sched_getaffinity(thread) == {CORE} for thread in threads)
        assert 20 < process.rss_mb() < 500
        assert answers(("127.0.0.1", process.port))
        assert process.pid in children_of(os.getpid())
    assert not answers(("127.0.0.1", process.port))


def test_a_server_that_refuses_to_start(tmp_path: Path) -> None:
    """The error has the exit code and the last line of the output."""
    with replica("nowhere", CORE, tmp_path) as process, pytest.raises(ProcessError) as caught:
        process.wait_ready()
    assert "the process ended with 3: " in str(caught.value)
    assert "benchmarks.packs.nowhere" in str(caught.value)


def test_the_log_is_counted(tmp_path: Path) -> None:
    """After the log of a running server was emptied, the following requests are in the log and are counted."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    with replica("echo", CORE, tmp_path) as process:
        process.wait_ready()
        process.empty_log()
        assert process.requests_logged() == 0
        with httpx.Client(verify=False) as client:
            for _ in range(3):
                reply = client.post(
                    f"http://127.0.0.1:{process.port}/mcp", json=body, headers={"Accept": "application/json"}
                )
                assert reply.status_code == 200
        deadline = time.monotonic() + 5
        while process.requests_logged() < 3 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert process.requests_logged() == 3
