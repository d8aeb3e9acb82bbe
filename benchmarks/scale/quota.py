"""A fixed share of a CPU core for each of some processes: the kernel's quota, by cgroups of version 1 or 2."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.interruption import held
from benchmarks.process import stop_all

_PERIOD = 10_000
"""Microseconds: a process that has used up its share waits for the rest of these."""
_LEAST = 1_000
"""Microseconds in a period that the kernel accepts."""


class NoQuota(Exception):
    """This process may not set one; `str()` says why in one line."""


class Group:
    """A cgroup that bounds its processes' CPU time; it isn't bounded at first."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def hold(self, pid: int) -> None:
        """Take in a process.

        Raises:
            OSError: the kernel doesn't let this process do so.
        """
        (self._folder / "cgroup.procs").write_text(str(pid))

    def allow(self, share: float | None) -> None:
        """Set how much of a core its processes may use together, above 0; None: as much as there is.

        Raises:
            NoQuota: groups here have none.
            OSError: the kernel doesn't let this process do so.
        """
        period = max(_PERIOD, round(_LEAST / share)) if share else _PERIOD
        quota = round(share * period) if share else None
        if (self._folder / "cpu.max").exists():
            (self._folder / "cpu.max").write_text(f"{quota or 'max'} {period}")
        elif (self._folder / "cpu.cfs_quota_us").exists():
            (self._folder / "cpu.cfs_period_us").write_text(str(period))
            (self._folder / "cpu.cfs_quota_us").write_text(str(quota or -1))
        else:
            raise NoQuota("no cpu controller")


@contextmanager
def groups(count: int) -> Iterator[list[Group]]:
    """So many groups, for as long as the `with` lasts; at its end all programs that still run are ended.

    Raises:
        NoQuota: the kernel has no such groups, or this process may not make them.
    """
    folders: list[Path] = []
    try:
        with held():
            place = _place()
            for number in range(count):
                folder = _named(place, str(number))
                folder.mkdir()
                folders.append(folder)
        yield [Group(folder) for folder in folders]
    finally:
        with held():
            stop_all()  # a group with a process in it can't be removed
            for folder in folders:
                folder.rmdir()


def _place() -> Path:
    """The folder in which this process may make groups.

    Not even the right to make one says that a process may be moved there, so that it is tried.
    """
    reason = "no cgroup has a cpu controller"
    for place in places(Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text()):
        try:
            _try(place)
        except NoQuota:
            continue
        except OSError as error:
            reason = error.strerror or str(error)
        else:
            return place
    raise NoQuota(f"no quota may be set ({reason})")


def _try(place: Path) -> None:
    folder = _named(place, "try")
    folder.mkdir()
    try:
        group = Group(folder)
        group.allow(0.5)
        with subprocess.Popen(("sleep", "60")) as process:
            try:
                group.hold(process.pid)
            finally:
                process.kill()
    finally:
        folder.rmdir()


def _named(place: Path, name: str) -> Path:
    return place / f"mcp-swarm-benchmark-{os.getpid()}-{name}"


def places(mounts: str, memberships: str) -> Iterator[Path]:
    """Where groups with a quota may be: in this process's own group, or in one around it, the nearest first.

    Args:
        mounts: as in `/proc/self/mountinfo`.
        memberships: as in `/proc/self/cgroup`.
    """
    own: dict[str, str] = {}
    for line in memberships.splitlines():
        _, controllers, path = line.split(":", 2)
        own |= dict.fromkeys(controllers.split(","), path)  # version 2 has no controllers in this line
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        root, point = before.split()[3:5]
        kind, _, options = after.split(maxsplit=2)
        controller = {"cgroup": "cpu", "cgroup2": ""}.get(kind)
        if controller is None or controller not in own or (controller and controller not in options.split(",")):
            continue
        folder = top = Path(point)
        with suppress(ValueError):  # a container may see its own group as the root of all
            folder = top / Path(own[controller]).relative_to(root)
        yield folder
        while folder != top:
            folder = folder.parent
            yield folder
