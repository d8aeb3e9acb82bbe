"""A fixed share of a CPU core for a process: the kernel's quota, with cgroups of version 1 or 2."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.interruption import held
from benchmarks.process import stop_all

_MOUNT = Path("/sys/fs/cgroup")
_PERIOD = 10_000
"""Length of a period in µs. A process that has used its share waits for the next period."""
_LEAST = 1_000
"""Smallest quota in µs that the kernel accepts."""


class NoQuota(Exception):
    """This process may not set a quota; `str()` says why in one line."""


class Group:
    """A cgroup that limits the CPU time of its processes; there is no limit at first."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, pid: int) -> None:
        """Move a process into the group."""
        (self._folder / "cgroup.procs").write_text(str(pid))

    def limit(self, share: float | None) -> None:
        """Set the share of a core that the group may use; None: no limit.

        Raises:
            NoQuota: The group has no cpu controller.
        """
        period = max(_PERIOD, round(_LEAST / share)) if share else _PERIOD
        quota = round(share * period) if share else None
        if (self._folder / "cpu.max").exists():
            (self._folder / "cpu.max").write_text(f"{quota or 'max'} {period}")
        elif (self._folder / "cpu.cfs_quota_us").exists():
            (self._folder / "cpu.cfs_period_us").write_text(str(period))
            (self._folder / "cpu.cfs_quota_us").write_text(str(quota or -1))
        else:
            raise NoQuota("no cgroup has a cpu controller")


@contextmanager
def groups(count: int) -> Iterator[list[Group]]:
    """Create groups for the length of the block. At its end all programs of the study stop.

    Raises:
        NoQuota: The kernel has no such groups, or this process may not create them.
    """
    folders: list[Path] = []
    try:
        with held():
            place = _place()
            for number in range(count):
                folder = _folder(place, str(number))
                folder.mkdir()
                folders.append(folder)
        yield [Group(folder) for folder in folders]
    finally:
        with held():
            stop_all()  # The kernel does not remove a group that has a process.
            for folder in folders:
                folder.rmdir()


def _place() -> Path:
    """Return the folder in which this process may create groups: its own group, or a parent of this group."""
    reason = "no cgroup has a cpu controller"
    for place in places(Path("/proc/self/cgroup").read_text(), _MOUNT):
        folder = _folder(place, "try")
        try:
            folder.mkdir()
        except OSError as error:
            reason = error.strerror or str(error)
            continue
        try:
            Group(folder).limit(0.5)
            return place
        except (NoQuota, OSError) as error:
            reason = str(error)
        finally:
            folder.rmdir()
    raise NoQuota(f"no CPU quota can be set ({reason})")


def places(memberships: str, mount: Path) -> list[Path]:
    """Return the folders where groups may be, the nearest one first, from the content of `/proc/self/cgroup`."""
    found = []
    for line in memberships.splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers or "cpu" in controllers.split(","):  # Version 2 has no controllers in this line.
            root = mount / "cpu" if controllers else mount
            own = root / path.strip("/")
            found += [folder for folder in (own, *own.parents) if folder == root or root in folder.parents]
    return found


def _folder(place: Path, name: str) -> Path:
    return place / f"anyreplica-benchmark-{os.getpid()}-{name}"
