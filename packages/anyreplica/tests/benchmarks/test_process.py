"""The processes that a study measures."""

import os
from pathlib import Path

import pytest

from benchmarks.process import answers, children_of, replica

pytestmark = pytest.mark.alone


CORE = min(os.sched_getaffinity(0))


def test_the_clock_of_cpu_time_is_the_kernels_count(tmp_path: Path) -> None:
    """The clock has the user and system time of `/proc/<pid>/stat`."""
    with replica("echo", CORE, tmp_path) as process:
        seconds = process.wait_ready()
        clock = process.cpu_seconds()
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        assert ticks / os.sysconf("SC_CLK_TCK") == pytest.approx(clock, abs=0.05)
        assert 0.1 < clock <= seconds + 0.1
        assert os.sched_getaffinity(process.pid) == {CORE}
        threads = [int(thread.name) for thread in Path(f"/proc/{process.pid}/task").iterdir()]
        assert all(os.sched_getaffinity(thread) == {CORE} for thread in threads)
        assert 20 < process.rss_mb() < 500
        assert answers(("127.0.0.1", process.port))
        assert process.pid in children_of(os.getpid())
    assert not answers(("127.0.0.1", process.port))
