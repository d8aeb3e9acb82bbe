"""A server's memory while it is measured."""

import os
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")


def resident_mb(pid: int) -> float:
    """Resident memory in MB (10⁶ bytes), to some hundred kB.

    `Process.rss_mb` is exact and looks through every page, which for a gigabyte takes as long as ten calls: both the
    load and the server would have to wait for it.
    """
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE / 1e6


def most_mb(machine_gb: float) -> float:
    """What a server may take before its flood ends: 2 GB, or an eighth of the machine's memory if that is less."""
    return min(2_000.0, machine_gb * 1e3 / 8)
