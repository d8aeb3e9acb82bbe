"""The processes that are measured."""

import os
import time
from pathlib import Path

import httpx
import pytest

from benchmarks.plan import Plan
from benchmarks.process import ProcessError

pytestmark = pytest.mark.alone


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """On a core that this process may use."""
    core = min(os.sched_getaffinity(0))
    return Plan(rounds=1, seconds=0.1, starts=1, calls=100, core=core, log_level="INFO", folder=tmp_path)


def _ticks_of(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_the_clock_of_cpu_time_is_the_kernels_count(plan: Plan) -> None:
    """User and system time, as `/proc/<pid>/stat` has it; the start of a server takes some."""
    with plan.serve("echo") as process:
        seconds = process.wait_ready()
        clock = process.cpu_seconds()
        ticks = _ticks_of(process.pid) / os.sysconf("SC_CLK_TCK")
        assert ticks == pytest.approx(clock, abs=0.05)
        assert 0.1 < clock <= seconds + 0.1
        assert os.sched_getaffinity(process.pid) == {plan.core}
        threads = [int(thread.name) for thread in Path(f"/proc/{process.pid}/task").iterdir()]
        assert all(os.sched_getaffinity(thread) == {plan.core} for thread in threads)
        assert 20 < process.rss_mb() < 500


def test_a_server_that_refuses_to_start(plan: Plan) -> None:
    """Its own reason is told."""
    with plan.serve("nowhere") as process, pytest.raises(ProcessError) as caught:
        process.wait_ready()
    assert "the process ended with 3: " in str(caught.value)
    assert "benchmarks.packs.nowhere" in str(caught.value)


def test_the_log_is_counted(plan: Plan) -> None:
    """Emptied while the server writes it, it holds what comes after."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    with plan.serve("echo") as process:
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
