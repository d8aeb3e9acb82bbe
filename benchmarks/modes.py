"""Where replicas keep what a client said: in one of them, with or without affinity, in a store, or nowhere.

python -m benchmarks.modes --rounds 3
"""

import argparse
import shutil
import subprocess
import sys
from contextlib import ExitStack
from importlib.metadata import version

from benchmarks.job_fleet import RedisServer
from benchmarks.load import LoadError
from benchmarks.mode import proxy
from benchmarks.mode.cases import CASES, KINDS, STORE_URL, Case, Kind
from benchmarks.mode.findings import Results
from benchmarks.mode.fleet import REPLICAS, Fleet
from benchmarks.mode.phases import Plan, Round
from benchmarks.process import ProcessError
from benchmarks.study.command import Missing, Run, Script, main, some_of
from benchmarks.study.study import Findings
from benchmarks.study.turns import turns

_STEPS = 3
"""Of a round of each kind of replicas, beyond one for each case: start, update, kill."""


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--only",
        type=some_of(CASES),
        default=CASES,
        metavar="NAME,…",
        help=f"some of {', '.join(case.name for case in CASES)}",
    )


def _chosen(given: argparse.Namespace) -> list[tuple[Kind, list[Case]]]:
    """The kinds of replicas that are needed, each with the cases that are wanted."""
    pairs = [(kind, [case for case in kind.cases if case in given.only]) for kind in KINDS]
    return [(kind, cases) for kind, cases in pairs if cases]


def _steps(given: argparse.Namespace, rounds: int) -> int:
    return rounds * sum(_STEPS + len(cases) for _, cases in _chosen(given))


def _plan(given: argparse.Namespace) -> Plan:
    if given.quick:
        return Plan(seconds=0.4, clients=16, calls=20, rate=40, before=1, after=1, replaced=1)
    return Plan(seconds=3, clients=16, calls=20, rate=40, before=4, after=6, replaced=REPLICAS)


def _measure(run: Run) -> Findings:
    if shutil.which("haproxy") is None:
        raise Missing("haproxy is not installed: apt-get install haproxy")
    plan, results = _plan(run.given), Results(run.given.only)
    redis = "" if shutil.which("redis-server") else "redis-server is not installed: apt-get install redis-server"
    for number, (kind, cases) in turns(_chosen(run.given), run.rounds):
        if kind.stores and redis:
            results.skipped.update({case.name: redis for case in cases})
            continue
        if all(case.name in results.broken for case in cases):
            continue
        try:
            _round(run, plan, results, kind, cases, f"round {number} of {run.rounds}: {kind.name}")
        except (ProcessError, LoadError) as error:
            results.broken.update({case.name: str(error) for case in cases})
    versions = {name: version(name) for name in ("fastmcp", "mcp", "uvicorn")} | {"HAProxy": proxy.version()}
    return results.findings(plan, versions if redis else versions | {"Redis": _redis_version()})


def _round(run: Run, plan: Plan, results: Results, kind: Kind, cases: list[Case], title: str) -> None:
    run.step(f"{title}, start")
    with ExitStack() as stack:
        settings = dict(kind.settings)
        if kind.stores:
            store = stack.enter_context(RedisServer(run.folder))
            store.wait_ready()
            store.pin(run.machine.load_core)
            settings[STORE_URL] = store.url(0)
        fleet = Fleet(kind.module, run.machine.server_core, run.machine.load_core, run.folder, settings)
        stack.enter_context(fleet.running())
        door = stack.enter_context(proxy.Proxy(fleet.ports, run.machine.load_core, run.folder))
        door.wait_ready()
        measured = Round(plan, fleet, door, cases)
        measured.check()
        for case in cases:
            run.step(f"{title}, {case.title}")
            measured.calm(case)
        run.step(f"{title}, update")
        measured.update()
        run.step(f"{title}, kill")
        measured.kill()
    for case in cases:
        results.add(case, measured.outcomes[case.name])


def _redis_version() -> str:
    done = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True)
    return done.stdout.split("v=")[1].split()[0]


SCRIPT = Script(
    name="modes",
    title="Sessions and stateless replicas, behind a round robin",
    claim="Only stateless replicas survive everything that happens to them, without affinity and without a store.",
    description=f"{REPLICAS} replicas behind HAProxy, which gives each request to the next of them, are measured while "
    "nothing happens, while one after the other is replaced, and when one is killed: with sessions in one replica "
    "each, with affinity by Mcp-Session-Id, with sessions in a shared Redis, and stateless in both protocol families. "
    "The full run takes about five minutes. With --quick an update replaces one replica only.",
    rounds=(1, 3),
    steps=_steps,
    measure=_measure,
    options=_options,
)


if __name__ == "__main__":
    sys.exit(main(SCRIPT))
