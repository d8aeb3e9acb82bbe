"""The machine that figures come from, and which of its cores are used."""

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Machine:
    """What figures depend on."""

    cpu: str
    cores: int
    """Cores that this process may use."""
    memory_gb: float
    """In GB (10⁹ bytes)."""
    kernel: str
    python: str
    server_core: int
    """The core that servers run on."""
    load_core: int
    """The core that the load comes from; the same one where there is no other."""

    def __str__(self) -> str:
        """One line for a report."""
        shared = " (shared: figures of latency say little)" if self.server_core == self.load_core else ""
        return f"{self.hardware}; server on core {self.server_core}, load on core {self.load_core}{shared}"

    @property
    def hardware(self) -> str:
        """The same without the cores that are chosen, for processes that may run on any."""
        return f"{self.cpu}, {self.cores} cores, {self.memory_gb:.0f} GB, Linux {self.kernel}, Python {self.python}"


def this_machine() -> Machine:
    """Describe the machine this runs on, and choose two cores that share no execution unit, if it has such."""
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
    """The server's core, the last, and the load's: the first that isn't its other hyper-thread, if there is one."""
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
