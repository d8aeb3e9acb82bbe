"""What each transport costs: stdio, Streamable HTTP over TCP and over a Unix socket, and in memory.

python -m benchmarks.transports --calls 50 --concurrency 5
"""

import argparse
import sys
from importlib.metadata import version

from mcp_swarm.loadtest.arguments import positive

from benchmarks import interruption
from benchmarks.study.command import Run, Script, main
from benchmarks.study.study import Findings
from benchmarks.study.turns import turns
from benchmarks.transport.cases import CASES, Case
from benchmarks.transport.course import Course
from benchmarks.transport.tables import Results, tables
from benchmarks.transport.verdict import Verdict
from benchmarks.wire import Family

_MEASURED = ("mcp", "fastmcp", "httpx2", "uvicorn", "uvloop")


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--calls", type=positive, metavar="N", help="calls of each client (default: 50; with --quick 20)"
    )
    parser.add_argument(
        "--concurrency", type=positive, metavar="N", help="clients at once (default: 5; with --quick 2)"
    )
    # For the tests: only one family.
    parser.add_argument("--era", dest="family", choices=[family.value for family in Family], help=argparse.SUPPRESS)


def _cases(given: argparse.Namespace) -> list[Case]:
    return [case for case in CASES if given.family in (None, case.family.value)]


def _course(given: argparse.Namespace) -> Course:
    calls, clients = (20, 2) if given.quick else (50, 5)
    return Course(given.calls or calls, given.concurrency or clients)


def _measure(run: Run) -> Findings:
    """Each case in turn, with a server that is started for it; one that fails is left out of what follows."""
    course = _course(run.given)
    results = {case: Results(case) for case in _cases(run.given)}
    for number, case in turns(list(results), run.rounds):
        run.step(f"round {number} of {run.rounds}: {case.transport.title}, {case.family.value}")
        mine = results[case]
        if mine.failure:
            continue
        try:
            with case.transport.open(run.machine.server_core, run.folder) as place:
                mine.add(interruption.run(course.run(place, case.family, whole=case.whole)))
        except Exception as error:  # noqa: BLE001  # whatever a client's tasks have met, the other cases can be measured
            mine.failure = _told(error)
    shown = tables(list(results.values()), course)
    by_name = {table.name: table for table in shown}
    sentence, meaning = Verdict(shown[0], by_name["client"], course.clients).words()
    return Findings(shown, sentence, meaning, versions={name: version(name) for name in _MEASURED})


def _told(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}".partition("\n")[0]


SCRIPT = Script(
    name="transports",
    title="Transports",
    claim="Streamable HTTP is the right transport for a server that many agents share.",
    description="Call an echo over stdio (a process for each client, and one that is kept), over Streamable HTTP (TCP, "
    "and a Unix domain socket) and in memory, in both families of the protocol, with the official SDK's client: time "
    "from the start to the first reply, to connect, and of a call, with one client and with some at once; the server's "
    "CPU time and memory; messages from 100 B to 1 MB; and the same without a client library. Every reply is checked.",
    rounds=(1, 5),
    steps=lambda given, rounds: rounds * len(_cases(given)),
    measure=_measure,
    options=_options,
)


if __name__ == "__main__":
    sys.exit(main(SCRIPT))
