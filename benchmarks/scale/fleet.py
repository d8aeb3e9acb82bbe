"""Replicas that are measured, some of them at a time."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.process import Process, ProcessError
from benchmarks.scale.callers import Calling, Target, call
from benchmarks.scale.quota import Group
from benchmarks.scale.room import Room

_BUSY = 0.95
"""From here on a process that calls is what sets the pace."""


@dataclass(frozen=True)
class Measured:
    """Some replicas under load for some time."""

    rate: float
    """Calls per second, of all of them."""
    cpu_us: float
    """CPU time of the replicas per call in µs."""
    p50_ms: float
    """The slowest replica's."""
    p99_ms: float
    """The slowest replica's."""
    rss_mb: float
    """Resident memory of one in MB, at the mean."""
    used: float
    """CPU time per time of one, 0 to 1, at the mean."""
    load_busy: float
    """CPU time per time, 0 to 1, of the process that called most."""


@dataclass(frozen=True)
class Fleet:
    """Replicas, ready."""

    replicas: Sequence[Process]
    groups: Sequence[Group]
    """Of the replicas, in their order; empty where they are not bounded."""
    room: Room

    def measure(self, calling: Calling, count: int, *, whole: bool, first: int) -> Measured:
        """Call some of them.

        Args:
            count: how many.
            whole: whether each may have all of its core, whatever its share.
            first: number of the first of them; it and those after it, in a circle.

        Raises:
            LoadError: a reply was wrong in the warm-up, or missing.
            ProcessError: a replica ended, replies were wrong later on, or the load could not send more.
        """
        chosen = [(first + number) % len(self.replicas) for number in range(count)]
        for number in chosen if self.groups else ():
            self.groups[number].allow(None if whole else self.room.share)
        targets: dict[int, list[Target]] = {}
        for place, number in enumerate(chosen):
            core = self.room.load_cores[place % len(self.room.load_cores)]
            targets.setdefault(core, []).append(Target(self.replicas[number].port, self.replicas[number].pid))
        heard = call(calling, targets)
        wrong = [sample for sample in heard.samples if sample.errors]
        if wrong:
            raise ProcessError(f"{sum(sample.errors for sample in wrong)} wrong replies: {wrong[0].first_error}")
        if heard.busy >= _BUSY and not whole:
            raise ProcessError("the load could not send more: give each replica less, with --share")
        cpu_seconds = sum(sample.cpu_seconds for sample in heard.samples)
        return Measured(
            rate=sum(sample.per_second for sample in heard.samples),
            cpu_us=1e6 * cpu_seconds / sum(sample.requests for sample in heard.samples),
            p50_ms=max(sample.p50_ms for sample in heard.samples),
            p99_ms=max(sample.p99_ms for sample in heard.samples),
            rss_mb=sum(self.replicas[number].rss_mb() for number in chosen) / count,
            used=sum(sample.busy for sample in heard.samples) / count,
            load_busy=heard.busy,
        )


@contextmanager
def serving(count: int, room: Room, groups: Sequence[Group], folder: Path, core: int) -> Iterator[Fleet]:
    """So many replicas; they end with the `with`.

    Args:
        groups: one for each, which takes it in when it is ready: a start takes a second of a whole core.
        core: where replicas run that the room has none for.

    Raises:
        ProcessError: one of them does not start.
    """
    cores = room.server_cores or (core,)
    with ExitStack() as stack:
        replicas = [
            stack.enter_context(
                Process(
                    "server",
                    core=cores[number % len(cores)],
                    folder=folder,
                    MCP_COMPONENTS="benchmarks.packs.echo",
                    REPLICA_NAME=f"replica-{number}",
                    # A connection is kept for as long as its caller wants it.
                    MAX_REQUESTS_PER_CONNECTION="0",
                    MAX_CONNECTION_AGE_SECONDS="0",
                )
            )
            for number in range(count)
        ]
        for replica in replicas:
            replica.wait_ready()
        for group, replica in zip(groups, replicas, strict=False):
            group.hold(replica.pid)
        yield Fleet(replicas, groups, room)
        for group in groups:
            group.allow(None)  # or they would take their time to end
