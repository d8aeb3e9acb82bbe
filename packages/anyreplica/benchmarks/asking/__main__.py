"""The time from a tool's question to the client's answer.

python -m benchmarks.asking
"""

import secrets
import sys
from contextlib import ExitStack
from dataclasses import dataclass

from anyreplica.load.latency import percentile
from benchmarks import interruption
from benchmarks.asking.client import answer_questions
from benchmarks.command import Run, Script, main
from benchmarks.jobs.redis_server import RedisServer
from benchmarks.process import Process, replica
from benchmarks.rounds import Rounds
from benchmarks.study import Column, Table

_COLUMNS = [
    Column("p50", "time from question to answer, p50", "ms"),
    Column("p99", "p99", "ms"),
    Column("cpu", "CPU time per question, all servers together", "µs"),
]
_WARM_UP = 20


@dataclass(frozen=True)
class Case:
    """A way to serve the tool. The first server gets the call, and the last server gets the answers."""

    name: str
    title: str
    servers: tuple[Process, ...]


def _measure(run: Run) -> list[Table]:
    times = 50 if run.quick else 500
    with ExitStack() as stack:
        redis = stack.enter_context(RedisServer(run.folder))
        redis.wait_ready()

        def start(*module: str, **settings: str) -> Process:
            return stack.enter_context(replica("asking", run.machine.server_core, run.folder, *module, **settings))

        shared = {"HANDSHAKE_SESSIONS": "ask", "REDIS_URL": redis.url(0), "MCP_REPLICAS": "2"}
        shared["REQUEST_STATE_KEYS"] = secrets.token_hex(32)
        cases = [
            Case("two", "answer at another replica, through Redis", (start(**shared), start(**shared))),
            Case("one", "one replica without Redis", (start(HANDSHAKE_SESSIONS="ask"),)),
            Case("stateful", "FastMCP's stateful server", (start("benchmarks.peers.stock", "sessions"),)),
        ]
        for server in (server for case in cases for server in case.servers):
            server.wait_ready()
        rounds = Rounds(cases)
        rounds.measure(run, lambda case: _round(case, times))
    return [Table("questions", "A question of a tool, until the tool has the answer", _COLUMNS, rounds.rows())]


def _round(case: Case, times: int) -> dict[str, float]:
    asking, answering = case.servers[0].port, case.servers[-1].port
    interruption.run(answer_questions(asking, answering, _WARM_UP))
    before = sum(server.cpu_seconds() for server in case.servers)
    took = sorted(interruption.run(answer_questions(asking, answering, times)))
    cpu = sum(server.cpu_seconds() for server in case.servers) - before
    return {"p50": percentile(took, 50), "p99": percentile(took, 99), "cpu": cpu / times * 1e6}


SCRIPT = Script(
    name="asking",
    description="Call a tool that asks its client many times, one question after the other, and measure the time "
    "from a question to its answer in the tool: with the answer at another replica, with one replica, and with "
    "FastMCP's own server with sessions. The client answers at once and is the same in all cases.",
    rounds=(1, 5),
    seconds=(1, 1),
    measure=_measure,
)


if __name__ == "__main__":
    sys.exit(main(SCRIPT))
