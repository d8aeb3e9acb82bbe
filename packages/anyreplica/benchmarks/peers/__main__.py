"""The same echo on this template, the official SDKs and FastMCP.

python -m benchmarks.peers --json peers.json
"""

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.command import Run, Script, main
from benchmarks.interruption import run as run_load
from benchmarks.load import LoadError, measured
from benchmarks.peers.build import NotBuilt
from benchmarks.peers.servers import FLOOR, OURS, SERVERS, Server
from benchmarks.process import CORES, Process, ProcessError
from benchmarks.rounds import Rounds, add_only
from benchmarks.sample import Sample
from benchmarks.scenarios import MESSAGE, Scenario
from benchmarks.study import Column, Table
from benchmarks.wire import Family, encode

NOT_BUILT = "not built yet: run with --build"
CONNECTIONS = 32

_COLUMNS = [
    Column("cpu", "CPU time per call, 2025-11-25", "µs"),
    Column("floor", "times the floor", "×"),
    Column("ours", "times this template", "×"),
    Column("cpu_2026", "CPU time per call, 2026-07-28", "µs"),
    Column("ours_2026", "times this template, 2026-07-28", "×"),
    Column("rate", "calls with one core, 2025-11-25", "/s"),
    Column("rate_all", "calls with all cores, 2025-11-25", "/s"),
    Column("rate_all_2026", "calls with all cores, 2026-07-28", "/s"),
    Column("memory", "memory", "MB"),
]


@dataclass(frozen=True)
class Running:
    """A server that runs."""

    server: Server
    process: Process

    def sample(self, family: Family, seconds: float) -> Sample:
        """Measure the server with calls of one protocol family."""
        process = self.process
        process.empty_log()
        load = measured(process.port, echo_in(family), CONNECTIONS, seconds, process.cpu_seconds)
        return run_load(load)[0]


def echo_in(family: Family) -> Scenario:
    """Return the call of the echo and the members of the reply that all SDKs send."""
    result = {"content": [{"type": "text", "text": MESSAGE}]}
    kind = {"resultType": "complete"} if family is Family.STATELESS else {}
    request = encode("tools/call", {"name": "echo", "arguments": {"message": MESSAGE}}, family=family)
    return Scenario("echo", family.value, "", request, {"jsonrpc": "2.0", "id": 1, "result": result | kind})


def _measure(run: Run) -> list[Table]:
    servers = [server for server in SERVERS if server.name == FLOOR or server in run.given.only]
    rounds = Rounds(servers)
    _build(run, rounds)
    with ExitStack() as stack:
        running: dict[str, Running] = {}
        whole: dict[str, Running] = {}
        for server in servers:
            if server.name not in rounds.skipped:
                try:
                    running[server.name] = _start(run, stack, server, run.machine.server_core)
                    whole[server.name] = _start(run, stack, server, None)
                except (ProcessError, LoadError, OSError) as error:
                    rounds.failures[server.name] = str(error)
        if FLOOR in rounds.failures:
            raise ProcessError(f"the floor: {rounds.failures[FLOOR]}")
        rounds.measure(
            run, lambda server: _round(run, running[server.name], running[FLOOR]) | _rate(run, whole[server.name])
        )

    def ratios(server: Server) -> dict[str, Sequence[float]]:
        if OURS not in running:
            return {}
        pairs = (("ours", "floor"), ("ours_2026", "floor_2026"))
        return {name: rounds.ratios(server.name, OURS, column) for name, column in pairs}

    return [Table("costs", "A call of the echo", _COLUMNS, rounds.rows(ratios))]


def _build(run: Run, rounds: Rounds[Server]) -> None:
    """Build the peers, and record why a peer is skipped."""
    for server in rounds.cases:
        if server.kit is None:
            continue
        try:
            if run.given.build or not run.quick:
                run.step(f"build: {server.kit.name} (once; up to some minutes)")
                server.kit.build()
            versions = server.kit.versions
            reason = "" if server.kit.built else NOT_BUILT
            run.versions.update({} if reason else versions)
        except (NotBuilt, OSError) as error:
            reason = str(error)
        if reason:
            rounds.skipped[server.name] = reason


def _start(run: Run, stack: ExitStack, server: Server, core: int | None) -> Running:
    """Start a server on one core or on all, and call it for some seconds: Node compiles code that it runs often."""
    run.step(f"start: {server.name}")
    process = stack.enter_context(server.start(core, run.folder))
    process.wait_ready()
    if core is not None:
        process.pin(core)
    running = Running(server, process)
    for family in server.families:
        running.sample(family, 0.5 if run.quick else 3.0)
    return running


def _round(run: Run, running: Running, floor: Running) -> dict[str, float]:
    """Measure a server in each family, immediately after the floor."""
    figures: dict[str, float] = {}
    for family in running.server.families:
        suffix = "" if family is Family.HANDSHAKE else "_2026"
        reference = floor.sample(Family.HANDSHAKE, run.seconds)
        sample = reference if running is floor else running.sample(family, run.seconds)
        figures |= {f"cpu{suffix}": sample.cpu_us, f"floor{suffix}": sample.cpu_us / reference.cpu_us}
        if not suffix:
            figures["rate"] = sample.per_second
    return figures | {"memory": running.process.rss_mb()}


def _rate(run: Run, running: Running) -> dict[str, float]:
    """Measure a server that may use all cores, in each protocol family. The load may use all cores, too."""
    core = os.sched_getaffinity(0)
    os.sched_setaffinity(0, CORES)
    columns = {Family.HANDSHAKE: "rate_all", Family.STATELESS: "rate_all_2026"}
    try:
        families = running.server.families
        return {columns[family]: running.sample(family, run.seconds).per_second for family in families}
    finally:
        os.sched_setaffinity(0, core)


def _options(parser: argparse.ArgumentParser) -> None:
    add_only(parser, SERVERS)
    parser.add_argument("--build", action="store_true", help="build the missing peers; a run without --quick does so")


SCRIPT = Script(
    name="peers",
    description="Call the same echo tool, stateless and with JSON replies, on this template, on servers of the "
    "official Rust, Go and TypeScript SDKs, on FastMCP, and on a bare floor. Each server is one process on one core, "
    "with 32 calls in flight, in both protocol families where the SDK supports both. The first run builds the peers "
    "with cargo, go and npm, in $XDG_CACHE_HOME/anyreplica/peers (~/.cache/anyreplica/peers); that takes some minutes. "
    "A peer without its toolchain is skipped.",
    rounds=(1, 5),
    seconds=(0.5, 1.0),
    measure=_measure,
    options=_options,
)

if __name__ == "__main__":
    sys.exit(main(SCRIPT))
