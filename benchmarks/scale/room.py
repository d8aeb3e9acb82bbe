"""Which cores replicas and the load run on, and how much of them each replica gets."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

FULL = 0.85
"""Most of a core that replicas may take together, each with its share: the rest is the system's."""

_DEFAULT = 80
"""Percent of a core that as many replicas as are asked for take together, unless told otherwise."""


@dataclass(frozen=True)
class Room:
    """Where processes run."""

    server_cores: Sequence[int]
    """Replicas take them in turn."""
    load_cores: Sequence[int]
    """The load of the first replica comes from the first, and so on in turn."""
    share: float | None
    """Of a core, for each replica; None: a whole one."""
    lack: str = ""
    """Why replicas get no share of a core."""

    def reason(self, replicas: int) -> str:
        """Why so many replicas can't be measured here, in words; empty when they can."""
        if self.share is not None:
            most = ceil(replicas / len(self.server_cores)) * self.share
            if most <= FULL:
                return ""
            return f"at {100 * self.share:.0f} % of a core each they need more than the load leaves: a smaller --share"
        if replicas <= min(len(self.server_cores), len(self.load_cores)):
            return ""
        cores = len({*self.server_cores, *self.load_cores})
        return f"needs {2 * replicas} cores, or a CPU quota for each; here: {cores}, {self.lack}"


def whole_cores(server: int, load: int, cores: Sequence[int]) -> Room:
    """A core for each replica, and as many for the load.

    Args:
        server, load: the cores to begin with; they are the same where there is no other.
        cores: all that there are, server and load among them.
    """
    if server == load:
        return Room((), (load,), None)
    rest = [core for core in cores if core not in (server, load)]
    half = len(rest) // 2
    return Room((server, *rest[:half]), (load, *rest[half : 2 * half]), None)


def shares(load: int, cores: Sequence[int], replicas: int, percent: int | None) -> Room:
    """A share of a core for each of so many replicas, and one core for the load.

    Args:
        percent: of a core, for each; None: what fills four fifths of one core, since a single load must keep up.
    """
    share = (percent or max(1, _DEFAULT // replicas)) / 100
    return Room([core for core in cores if core != load], (load,), share)


def apart(server: int, load: int, cores: Sequence[int]) -> list[int]:
    """One core out of each set that shares an execution unit; server and load are among them."""
    found: dict[str, int] = {}
    for core in (server, load, *cores):
        path = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
        found.setdefault(path.read_text().strip() if path.exists() else str(core), core)
    return list(dict.fromkeys((server, load, *found.values())))
