"""What the figures of all rounds say, as tables and in words."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from benchmarks.mode.cases import Case
from benchmarks.mode.fleet import DRAIN_SECONDS, REPLICAS
from benchmarks.mode.phases import LATER_SECONDS, Outcome, Plan
from benchmarks.mode.proxy import CHECK_SECONDS
from benchmarks.mode.words import meaning, sentence
from benchmarks.study.study import Column, Findings, Row, Table, row_of
from benchmarks.study.words import number

_MODES = [
    Column("success", "answered", "%", "more", True),
    Column("busiest", "busiest replica", "%", "less"),
    Column("rate", "calls", "/s", "more", True),
    Column("p99", "p99", "ms", "less", True),
    Column("cpu", "CPU/call", "µs", "less", True),
    Column("kill_calls", "kill: calls lost", "", "less", True),
    Column("kill_sessions", "kill: sessions lost", "", "less", True),
    Column("update_calls", "update: calls lost", "", "less", True),
    Column("update_sessions", "update: sessions lost", "", "less", True),
]

_BESIDE = [
    Column("p50", "p50", "ms", "less"),
    Column("bare", "bare calls answered", "%", "more"),
    Column("busiest_updated", "busiest replica after an update", "%", "less"),
    Column("kill_sent", "calls around a kill"),
    Column("update_sent", "calls around an update"),
]

_BESIDE_NOTE = (
    "A bare call is one of the handshake protocol without an initialize before it and without a session, as a script "
    "sends it. The share after an update is that of clients who were in conversation all the while."
)


def _note(plan: Plan) -> str:
    updated = "the replicas, one after the other" if plan.replaced == REPLICAS else f"{plan.replaced} of the replicas"
    return (
        f"{plan.clients} clients, each over a kept connection to HAProxy, which gives each request to the next "
        "replica. The replicas share a core; proxy, Redis and clients another. The columns up to the CPU time, which "
        f"is the replicas', are of conversations of {plan.calls} calls, as fast as it goes, while nothing happens; a "
        "client whose session is refused goes on with it, as the official one does. In the last four each client is "
        f"in one long conversation, {number(plan.rate)} calls/s of all together, {number(1000 * LATER_SECONDS)} ms "
        "each; one who is told 404 opens a new session before its next call, as the protocol asks, and so loses the "
        "least it can (without affinity most calls are lost anyway). Kill: one replica, by SIGKILL. Update: "
        f"{updated}: SIGTERM, wait for its end, "
        f"start it anew, wait until it is ready; DRAIN_SECONDS={number(DRAIN_SECONDS)}, and the proxy asks for "
        f"/readyz every {number(CHECK_SECONDS)} s."
    )


class Results:
    """What all rounds gave, by case."""

    def __init__(self, cases: list[Case]) -> None:
        self._cases = cases
        self._figures: dict[str, dict[str, list[float]]] = {case.name: defaultdict(list) for case in cases}
        self._failures: dict[str, list[Counter[str]]] = {case.name: [] for case in cases}
        self._examples: dict[str, str] = {}
        self.broken: dict[str, str] = {}
        """Why a case could not be measured, or not in every round."""
        self.skipped: dict[str, str] = {}
        """Why a case was not tried."""

    def add(self, case: Case, outcome: Outcome) -> None:
        """Add a round's."""
        for name, value in outcome.figures.items():
            self._figures[case.name][name].append(value)
        self._failures[case.name].append(outcome.failures)
        self._examples = outcome.examples | self._examples

    def findings(self, plan: Plan, versions: dict[str, str]) -> Findings:
        """All of it."""
        modes = Table("modes", f"{REPLICAS} replicas behind a round robin", _MODES, self._rows(_MODES), _note(plan))
        beside = Table("beside", "Beside that", _BESIDE, self._rows(_BESIDE), _BESIDE_NOTE)
        return Findings([modes, self._kinds(), beside], sentence(modes), meaning(modes, plan), versions=versions)

    def _rows(self, columns: list[Column]) -> list[Row]:
        names = {column.name for column in columns}
        rows = []
        for case in self._cases:
            if reason := self.skipped.get(case.name):
                rows.append(Row(case.name, case.title, skipped=reason))
                continue
            figures = self._figures[case.name]
            found: dict[str, Sequence[float]] = {name: values for name, values in figures.items() if name in names}
            rows.append(row_of(case.name, case.title, found, self.broken.get(case.name, "")))
        return rows

    def _kinds(self) -> Table:
        """A row for each kind of failure, a column for each case."""
        measured = [case for case in self._cases if self._failures[case.name]]
        total: Counter[str] = Counter()
        for case in measured:
            total.update(sum(self._failures[case.name], Counter()))
        columns = [Column(case.name, case.title, "", "less") for case in measured]
        rows = [
            row_of(kind, kind, {case.name: [each[kind] for each in self._failures[case.name]] for case in measured})
            for kind, _ in total.most_common()
        ]
        examples = "; ".join(f"{kind}: {self._examples[kind]}" for kind, _ in total.most_common())
        note = f"Requests of any method in a round, in all its phases. The first of each kind: {examples}."
        return Table("failures", "Failures by kind", columns, rows, note if rows else "There were none.")
