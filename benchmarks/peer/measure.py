"""The servers side by side: built, started, and measured in turns."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from benchmarks.peer.course import Course
from benchmarks.peer.kit import NotBuilt
from benchmarks.peer.servers import FLOOR, Server, kits_of
from benchmarks.process import ProcessError
from benchmarks.study.command import Run
from benchmarks.study.turns import turns

NOT_BUILT = "not built yet: run with --build"


@dataclass
class Measured:
    """What came of all."""

    servers: Sequence[Server]
    courses: dict[str, list[Course]] = field(default_factory=dict)
    """By the server's name; none for one that didn't start."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Why a server was not tried, by its name."""
    failures: dict[str, str] = field(default_factory=dict)
    """Why a server didn't start, by its name."""
    versions: dict[str, str] = field(default_factory=dict)
    """Of what the peers were built with, by name."""

    def failure_of(self, name: str) -> str:
        """Why a server has no figures, or not all of them; empty if it has."""
        wrong = [course.failure for course in self.courses.get(name, ()) if course.failure]
        return "; ".join(filter(None, (self.failures.get(name), *wrong)))


def steps(servers: Sequence[Server], rounds: int) -> int:
    """How often `measure` calls `Run.step`, if none is skipped."""
    return len(kits_of(servers)) + len(servers) + rounds * sum(len(server.families) for server in servers)


def measure(run: Run, servers: Sequence[Server], *, seconds: float, warm_up: float, build: bool) -> Measured:
    """Measure each server in each family that it knows, right after the floor.

    Args:
        servers: the floor among them.
        seconds: of each measurement.
        warm_up: seconds for which each server runs before the first, in each family.
        build: whether to build what isn't; else it is skipped.

    Raises:
        ProcessError: the floor failed, and with it every comparison.
    """
    measured = Measured(servers)
    _prepare(run, measured, build)
    with ExitStack() as stack:
        for server in servers:
            if server.name not in measured.skipped:
                run.step(f"start: {server.title}")
                _start(run, measured, server, seconds, stack)
                for course in measured.courses.get(server.name, ()):
                    course.begin(warm_up)
        if failure := measured.failure_of(FLOOR):
            raise ProcessError(f"the floor: {failure}")
        (floor,) = measured.courses[FLOOR]
        courses = [course for each in measured.courses.values() for course in each]
        for number, course in turns(courses, run.rounds):
            run.step(f"round {number} of {run.rounds}: {course.server.title}, {course.family.value}")
            course.measure(None if course is floor else floor.reference())
    return measured


def _prepare(run: Run, measured: Measured, build: bool) -> None:
    for kit in kits_of(measured.servers):
        try:
            if build:
                run.step(f"build: {kit.name} (once, up to some minutes)")
                kit.build({run.machine.server_core, run.machine.load_core})
            reason = "" if kit.folder.exists() else NOT_BUILT
            measured.versions |= {} if reason else kit.versions
        except (NotBuilt, OSError) as error:
            reason = str(error)
        if reason:
            measured.skipped |= {server.name: reason for server in measured.servers if server.kit is kit}


def _start(run: Run, measured: Measured, server: Server, seconds: float, stack: ExitStack) -> None:
    core = run.machine.server_core
    try:
        process = stack.enter_context(server.start(core, run.folder))
        process.wait_ready()
        process.pin(core)
    except (ProcessError, OSError) as error:
        measured.failures[server.name] = str(error)
        return
    measured.courses[server.name] = [Course(server, family, process, seconds) for family in server.families]
