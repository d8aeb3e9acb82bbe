"""The machine that figures come from, and the two cores that a study uses."""

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Machine:
    """The hardware and the software that figures depend on."""

    cpu: str
    cores: int
    """Number of cores that this process may use."""
    memory_gb: float
    """Memory in GB (10⁹ bytes)."""
    kernel: str
    python: str
    server_core: int
    """Core that servers run on."""
    load_core: int
    """Core that the load runs on; equal to `server_core` on a machine with one core."""

    def __str__(self) -> str:
        """Return one line for a report."""
        shared = " (one core for both: latencies are not reliable)" if self.server_core == self.load_core else ""
        return (
            f"{self.cpu}, {self.cores} cores, {self.memory_gb:.0f} GB, Linux {self.kernel}, Python {self.python}; "
            f"server on core {self.server_core}, load on core {self.load_core}{shared}"
        )


def this_machine() -> Machine:
    """Describe this machine and choose two cores, on different hyper-threads where possible."""
    cores = sorted(os.sched_getaffinity(0))
    server_core, load_core = choose_cores(cores, _siblings)
    return Machine(
        cpu=_cpu_model(),
        cores=len(cores),
        memory_gb=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        kernel=platform.release(),
        python=platform.python_version(),
        server_core=server_core,
        load_core=load_core,
    )


def choose_cores(cores: Sequence[int], siblings: Callable[[int], set[int]]) -> tuple[int, int]:
    """Return the server's core (the last one) and the load's core (the first one on another physical core)."""
    server = cores[-1]
    others = [core for core in cores if core != server]
    apart = [core for core in others if core not in siblings(server)]
    return server, next(iter(apart or others), server)


def _siblings(core: int) -> set[int]:
    path = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
    found: set[int] = set()
    for part in path.read_text().strip().split(",") if path.exists() else ():
        first, _, last = part.partition("-")  # "0,4" or "0-1"
        found.update(range(int(first), int(last or first) + 1))
    return found


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
