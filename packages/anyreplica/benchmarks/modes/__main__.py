"""Sessions and stateless replicas behind a round robin: what calls, an update and a kill cost.

python -m benchmarks.modes --rounds 3
"""

import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from anyreplica.load.latency import percentile
from anyreplica.load.message import Family
from benchmarks.command import Run, Script, main, need
from benchmarks.load import LoadError
from benchmarks.modes.clients import Clients
from benchmarks.modes.fleet import REPLICAS, Fleet
from benchmarks.modes.proxy import CHECK_SECONDS, Proxy, version
from benchmarks.rounds import Rounds, add_only
from benchmarks.study import Column, Table

CLIENTS = 16
RATE = 40.0
"""Calls per second of all clients together while a replica is replaced or killed."""

_CALLS = 20
"""Calls of a conversation as fast as possible."""
_WARM_UP = 3
_ENDLESS = 1_000_000

_COLUMNS = [
    Column("success", "calls answered", "%"),
    Column("busiest", "share of the busiest replica", "%"),
    Column("rate", "calls", "/s"),
    Column("p99", "p99", "ms"),
    Column("cpu", "CPU per call", "µs"),
    Column("kill_calls", "kill: calls lost"),
    Column("kill_sessions", "kill: sessions lost"),
    Column("update_calls", "update: calls lost"),
    Column("update_sessions", "update: sessions lost"),
]


@dataclass(frozen=True)
class Case:
    """A kind of replicas, and the way in which the proxy chooses a replica. FastMCP's own server has the sessions."""

    name: str
    title: str
    sessions: bool = False
    affinity: bool = False
    family: Family = Family.LEGACY


CASES = (
    Case("sessions", "FastMCP with sessions, no affinity", sessions=True),
    Case("affinity", "FastMCP with sessions, affinity", sessions=True, affinity=True),
    Case("stateless", "stateless, handshake protocol"),
    Case("stateless-2026", "stateless, 2026-07-28", family=Family.MODERN),
)


def _measure(run: Run) -> list[Table]:
    need("haproxy", "haproxy")
    run.versions["HAProxy"] = version()
    rounds = Rounds(run.given.only)
    rounds.measure(run, lambda case: _round(run, case))
    return [Table("modes", f"{REPLICAS} replicas behind a round robin", _COLUMNS, rounds.rows())]


def _round(run: Run, case: Case) -> Mapping[str, float]:
    """Measure one case: calls as fast as possible, an update, and a kill."""
    server, load = run.machine.server_core, run.machine.load_core
    module = ("benchmarks.peers.stock", "sessions") if case.sessions else ("server",)
    fleet = Fleet(server, run.folder, *module)
    with fleet.running(), Proxy(fleet.ports, load, run.folder) as proxy:
        proxy.wait_ready()
        port = proxy.affinity if case.affinity else proxy.port
        figures = _calm(case, port, fleet, run.seconds)
        # Sessions without affinity lose most calls anyway, so an update and a kill would show nothing more.
        if case.affinity or not case.sessions:
            figures |= _event(case, port, "update", lambda: _update(fleet, 1 if run.quick else REPLICAS), run.quick)
            figures |= _event(case, port, "kill", lambda: fleet.kill(REPLICAS - 1), run.quick)
    return figures


def _calm(case: Case, port: int, fleet: Fleet, seconds: float) -> dict[str, float]:
    """Measure calls as fast as possible while all replicas run.

    Raises:
        LoadError: No call was answered.
    """
    with Clients(port, case.family, CLIENTS, "echo", calls=_CALLS) as clients:
        clients.wait_calls(_WARM_UP)
        began, cpu = time.perf_counter(), fleet.cpu_seconds()
        time.sleep(seconds)
        ended, cpu_after = time.perf_counter(), fleet.cpu_seconds()
    calls = [call for call in clients.calls if began <= call.ended < ended]
    answered = [call for call in calls if call.replica]
    if not answered:
        raise LoadError(f"no call was answered within {seconds:g} s")
    ((_, most),) = Counter(call.replica for call in answered).most_common(1)
    return {
        "success": 100 * len(answered) / len(calls),
        "busiest": 100 * most / len(answered),
        "rate": len(answered) / (ended - began),
        "p99": percentile(sorted(1000 * (call.ended - call.begun) for call in answered), 99),
        "cpu": 1e6 * (cpu_after - cpu) / len(answered),
    }


def _event(case: Case, port: int, name: str, event: Callable[[], None], quick: bool) -> dict[str, float]:
    """Let something happen to the replicas while clients are in conversation, and count what is lost."""
    before, after = (1, 1) if quick else (4, 6)
    with Clients(port, case.family, CLIENTS, "very_slow", calls=_ENDLESS, rate=RATE, reopens=True) as clients:
        clients.wait_calls(before)
        event()
        clients.wait_calls(after)
    return {f"{name}_calls": clients.calls_lost, f"{name}_sessions": clients.sessions_lost}


def _update(fleet: Fleet, count: int) -> None:
    """Replace replicas, one after the other."""
    for number in range(count):
        fleet.replace(number)
        time.sleep(2 * CHECK_SECONDS)  # The proxy must see the new replica before the next one stops.


SCRIPT = Script(
    name="modes",
    description=f"Measure {REPLICAS} replicas behind HAProxy, which gives each request to the next replica: while "
    "nothing happens, while an update replaces one replica after the other, and when one replica is killed. The cases: "
    "sessions, sessions with affinity by Mcp-Session-Id, and stateless replicas in both protocol families. With "
    "--quick an update replaces one replica only.",
    rounds=(1, 3),
    seconds=(0.4, 3.0),
    packages=("fastmcp", "mcp", "uvicorn"),
    measure=_measure,
    options=lambda parser: add_only(parser, CASES),
)


if __name__ == "__main__":
    sys.exit(main(SCRIPT))
