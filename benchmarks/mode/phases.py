"""What is done to the replicas of one kind in a round, and what their clients saw of it."""

import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass

from mcp_swarm.loadtest.latency import percentile
from mcp_swarm.loadtest.message import Family

from benchmarks.load import LoadError
from benchmarks.mode.cases import ALONE, Case
from benchmarks.mode.clients import Clients, bare_calls
from benchmarks.mode.fleet import REPLICAS, Fleet
from benchmarks.mode.proxy import Proxy
from benchmarks.mode.tally import Call, Tally

LATER_SECONDS = 0.1
"""A call takes while something happens to the replicas; see `benchmarks.mode.pack`."""

_BARE = 12
_WARM_UP = 3
"""Calls of each client."""
_LATER = "echo_later"
_FOR_EVER = 1_000_000


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    seconds: float
    """As fast as it goes."""
    clients: int
    calls: int
    """Of a conversation."""
    rate: float
    """Calls a second while something happens to the replicas."""
    before: int
    """Calls of each client before that."""
    after: int
    """Calls of each client after it."""
    replaced: int
    """Replicas that an update replaces, one after the other."""


@dataclass(frozen=True)
class Outcome:
    """A case's figures, by the column's name, and the failures."""

    figures: dict[str, float]
    failures: Counter[str]
    examples: dict[str, str]


class Round:
    """A round of replicas that run.

    Args:
        cases: that are measured on them.
    """

    def __init__(self, plan: Plan, fleet: Fleet, proxy: Proxy, cases: list[Case]) -> None:
        self.outcomes = {case.name: Outcome({}, Counter(), {}) for case in cases}
        self._plan = plan
        self._fleet = fleet
        self._proxy = proxy
        self._cases = cases
        self._ports = {case.name: proxy.affinity if case.door == "affinity" else proxy.port for case in cases}

    def check(self) -> None:
        """Let each replica answer some conversations that reach no other.

        Raises:
            LoadError: a reply is wrong.
        """
        for case in {case.family: case for case in self._cases}.values():
            for port in self._fleet.ports:
                with Clients(port, case.family, 2, "echo", calls=_WARM_UP) as clients:
                    clients.wait_calls(clients.calls_ahead(_WARM_UP))
                if wrong := clients.tally.examples:
                    raise LoadError(f"a wrong reply: {'; '.join(map(': '.join, wrong.items()))}")

    def calm(self, case: Case) -> None:
        """Nothing happens, and the clients call as fast as it goes.

        Raises:
            LoadError: not one call has ended.
        """
        plan, fleet = self._plan, self._fleet
        if case.family is Family.LEGACY:
            bare = bare_calls(self._ports[case.name], _BARE)
            self._note(case, bare, bare=100 * (1 - bare.calls_lost / len(bare.calls)))
        with Clients(self._ports[case.name], case.family, plan.clients, "echo", calls=plan.calls) as clients:
            clients.wait_calls(clients.calls_ahead(_WARM_UP))
            began, cpu = time.perf_counter(), fleet.cpu_seconds()
            time.sleep(plan.seconds)
            ended, cpu_after = time.perf_counter(), fleet.cpu_seconds()
        calls = [call for call in clients.tally.calls if began <= call.ended < ended]
        if not calls:
            raise LoadError(f"no call ended within {plan.seconds:g} s")
        self._note(case, clients.tally, success=100 * sum(bool(call.replica) for call in calls) / len(calls))
        if answered := [call for call in calls if call.replica]:
            took = sorted(1000 * (call.ended - call.begun) for call in answered)
            self._note(
                case,
                Tally(),
                busiest=_busiest(answered),
                rate=len(answered) / (ended - began),
                p50=percentile(took, 50),
                p99=percentile(took, 99),
                cpu=1e6 * (cpu_after - cpu) / len(answered),
            )

    def update(self) -> None:
        """Replace one replica after the other, in the midst of conversations."""
        with ExitStack() as stack:
            conversing = self._conversing(stack)
            for number in range(self._plan.replaced):
                self._fleet.replace(number)
                self._proxy.wait_all_up()
            done = time.perf_counter()
            self._wait(conversing, self._plan.after)
        for case, clients in conversing:
            tally = clients.tally
            since = [call for call in tally.calls if call.replica and call.begun > done]
            spread = {"busiest_updated": _busiest(since)} if since else {}
            self._note(case, tally, update_sent=len(tally.calls), **_lost(case, tally, "update"), **spread)

    def kill(self) -> None:
        """Kill a replica in the midst of conversations; it is not started again."""
        with ExitStack() as stack:
            conversing = self._conversing(stack)
            self._fleet.kill(REPLICAS - 1)
            self._wait(conversing, self._plan.after)
        for case, clients in conversing:
            tally = clients.tally
            self._note(case, tally, kill_sent=len(tally.calls), **_lost(case, tally, "kill"))

    def _conversing(self, stack: ExitStack) -> list[tuple[Case, Clients]]:
        """The clients of all cases at once, each in a conversation that lasts until the stack ends."""
        plan = self._plan

        def converse(case: Case) -> Clients:
            port = self._ports[case.name]
            return stack.enter_context(
                Clients(port, case.family, plan.clients, _LATER, calls=_FOR_EVER, rate=plan.rate, reopens=True)
            )

        conversing = [(case, converse(case)) for case in self._cases]
        self._wait(conversing, plan.before)
        return conversing

    @staticmethod
    def _wait(conversing: list[tuple[Case, Clients]], calls: int) -> None:
        goals = [(clients, clients.calls_ahead(calls)) for _, clients in conversing]
        for clients, goal in goals:
            clients.wait_calls(goal)

    def _note(self, case: Case, tally: Tally, **figures: float) -> None:
        outcome = self.outcomes[case.name]
        outcome.figures.update(figures)
        outcome.failures.update(tally.failures)
        outcome.examples.update(tally.examples | outcome.examples)


def _busiest(calls: list[Call]) -> float:
    """The share of the replica that answered most of them, in percent."""
    ((_, most),) = Counter(call.replica for call in calls).most_common(1)
    return 100 * most / len(calls)


def _lost(case: Case, tally: Tally, event: str) -> dict[str, float]:
    """What an event cost; nothing of sessions without affinity, which lose most calls without any."""
    if case is ALONE:
        return {}
    return {f"{event}_calls": tally.calls_lost, f"{event}_sessions": tally.sessions_lost}
