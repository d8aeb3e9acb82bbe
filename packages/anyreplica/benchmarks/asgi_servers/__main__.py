"""The template's app under uvicorn, hypercorn and granian.

python -m benchmarks.asgi_servers --json servers.json
"""

import importlib.util
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version

from benchmarks import interruption
from benchmarks.command import Run, Script, main
from benchmarks.load import measured
from benchmarks.process import Process, children_of, cpu_seconds_of, replica, rss_mb_of
from benchmarks.rounds import Rounds, add_only
from benchmarks.scenarios import ECHO
from benchmarks.study import Column, Table

CONNECTIONS = 16
_COLUMNS = [
    Column("cpu", "CPU per call", "µs"),
    Column("rate", "calls", "/s"),
    Column("p99", "p99", "ms"),
    Column("rss", "memory", "MB"),
]


@dataclass(frozen=True)
class Server:
    """An ASGI server."""

    name: str
    title: str
    package: str
    protocol: tuple[str, ...] = ()
    """Value of uvicorn's `http` option."""


SERVERS = (
    Server(
        "template",
        "uvicorn as the template runs it",
        "uvicorn",
        ("anyreplica.http.uvicorn.protocol:HttpProtocol",),
    ),
    Server("httptools", "uvicorn, httptools and uvloop", "uvicorn", ("httptools",)),
    Server("h11", "uvicorn, h11 and uvloop", "uvicorn", ("h11",)),
    Server("hypercorn", "hypercorn", "hypercorn"),
    Server("granian", "granian", "granian"),
)


def _measure(run: Run) -> list[Table]:
    rounds = Rounds(run.given.only)
    with ExitStack() as stack:
        processes: dict[str, Process] = {}
        for server in rounds.cases:
            if importlib.util.find_spec(server.package) is None:
                rounds.skipped[server.name] = f"{server.package} is not installed: pip install {server.package}"
                continue
            run.versions[server.package] = version(server.package)
            module = ("benchmarks.asgi_servers.serve", server.package, *server.protocol)
            processes[server.name] = stack.enter_context(replica("echo", None, run.folder, *module))
        for name, process in processes.items():
            run.step(f"start: {name}")
            process.wait_ready()
            process.pin(run.machine.server_core)  # On all cores the servers start in half the time.
        rounds.measure(run, lambda server: _round(run, processes[server.name]))
    return [Table("servers", f"Calls over {CONNECTIONS} connections", _COLUMNS, rounds.rows())]


def _round(run: Run, process: Process) -> Mapping[str, float]:
    pids = [process.pid, *children_of(process.pid)]  # granian serves in a child process.
    load = measured(process.port, ECHO, CONNECTIONS, run.seconds, lambda: sum(map(cpu_seconds_of, pids)))
    sample, _ = interruption.run(load)
    memory = max(map(rss_mb_of, pids))
    return {"cpu": sample.cpu_us, "rate": sample.per_second, "p99": sample.p99_ms, "rss": memory}


SCRIPT = Script(
    name="asgi_servers",
    description="Serve the same echo under uvicorn, hypercorn and granian with HTTP/1.1, and call it over "
    f"{CONNECTIONS} connections.",
    rounds=(1, 5),
    seconds=(0.5, 2.0),
    packages=("uvicorn", "httptools", "h11"),
    measure=_measure,
    options=lambda parser: add_only(parser, SERVERS),
)


if __name__ == "__main__":
    sys.exit(main(SCRIPT))
