"""The figures as tables."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.study.study import Column, Row, Table, row_of
from benchmarks.transport.cases import Case
from benchmarks.transport.course import SIZES, Course
from benchmarks.wire import Family

_PUBLISHED = (
    "Published elsewhere, of another machine and server, for comparison: stdio 19.6 ms p50; HTTP 53.1 ms p50, 65 ms to "
    "connect, 305 ms mean of concurrent calls, 90 MB; a Unix socket was not measured."
)
_HOW = (
    "The same client, the official SDK's, in one process on one core; every server process on another core. HTTP is "
    "this project's server with its access log, where nothing else is said; stdio and in memory are FastMCP's own "
    "server. Where one stdio process is kept, all callers share the one client that started it, so none connects. In "
    "memory the libraries are loaded "
    "already. Over HTTP a client reads the machine's TLS certificates before it connects, needed or not."
)
_FAMILY = {
    Family.HANDSHAKE: "protocol 2025-11-25 (handshake)",
    Family.STATELESS: "protocol 2026-07-28 (stateless)",
}


@dataclass
class Results:
    """Of one case, over the rounds."""

    case: Case
    rounds: dict[str, list[float]] = field(default_factory=dict)
    failure: str = ""

    def add(self, figures: dict[str, float]) -> None:
        """Take in a round."""
        if "hand_p50" in figures:
            figures = figures | {"share": 100 * (1 - figures["hand_p50"] / figures["p50"])}
        for name, value in figures.items():
            self.rounds.setdefault(name, []).append(value)

    def row(self, columns: Sequence[Column], *, in_family: bool = False) -> Row:
        """A row of what these columns show.

        Args:
            in_family: whether the title says which.
        """
        title = f"{self.case.transport.title}, {self.case.family.value}" if in_family else self.case.transport.title
        shown: dict[str, Sequence[float]] = {column.name: self.rounds.get(column.name, []) for column in columns}
        return row_of(self.case.name if in_family else self.case.transport.name, title, shown, self.failure)


def tables(results: Sequence[Results], course: Course) -> list[Table]:
    """All that is shown; the first is one client and all at once, in the family that most clients speak."""
    return [
        _whole(results, course, Family.HANDSHAKE, f"{_HOW} {_slowest(course)}{_PUBLISHED}"),
        _whole(
            results, course, Family.STATELESS, "The client asks `server/discover` first, as it does if told nothing."
        ),
        _sizes(results),
        _client(results),
        _more(results, course),
    ]


def _whole(results: Sequence[Results], course: Course, family: Family, note: str) -> Table:
    at_once = f"{course.clients} at once"
    columns = [
        Column("start", "start to first reply", "ms", "less", drawn=True),
        Column("connect", "connect", "ms", "less", drawn=True),
        Column("p50", "call p50", "ms", "less", drawn=True),
        Column("p99", "p99", "ms", "less", drawn=True),
        Column("mean_n", f"mean, {at_once}", "ms", "less", drawn=True),
        Column("cpu", "server CPU per call", "µs", "less", drawn=True),
        Column("rss_n", f"memory, {at_once}", "MB", "less", drawn=True),
    ]
    rows = [each.row(columns) for each in results if each.case.family is family]
    return Table(f"transports-{family.value}", f"One client, and {at_once}: {_FAMILY[family]}", columns, rows, note)


def _sizes(results: Sequence[Results]) -> Table:
    columns = [Column(f"size_{size}", title, "ms", "less", drawn=True) for size, title in SIZES.items()]
    note = "p50 of one client, by the size of the message; the reply holds it twice, as text and as structured content."
    return Table("sizes", f"Larger messages: {_FAMILY[Family.HANDSHAKE]}", columns, _measured(results, columns), note)


def _client(results: Sequence[Results]) -> Table:
    columns = [
        Column("hand_p50", "p50 by hand", "ms", "less", drawn=True),
        Column("p50", "SDK's client", "ms", "less", drawn=True),
        Column("fastmcp_p50", "FastMCP's client", "ms", "less", drawn=True),
        Column("share", "SDK client's share", "%", "less"),
        Column("hand_cpu", "server CPU by hand", "µs", "less"),
        Column("cpu", "SDK's client", "µs", "less"),
        Column("fastmcp_cpu", "FastMCP's client", "µs", "less"),
    ]
    note = (
        "By hand: the call's bytes, made before, on one connection; the share is what a client takes beyond that. "
        "FastMCP's client asks for progress with each call; this project's server has nothing to say of it for an echo."
    )
    whole = [each for each in results if each.case.whole]
    return Table(
        "client", f"How much of it is the client: {_FAMILY[Family.HANDSHAKE]}", columns, _measured(whole, columns), note
    )


def _more(results: Sequence[Results], course: Course) -> Table:
    columns = [
        Column("p95", "call p95", "ms", "less"),
        Column("mean", "mean", "ms", "less"),
        Column("rate_n", f"calls per second, {course.clients} at once", "/s", "more", drawn=True),
        Column("rss", "memory, one client", "MB", "less", drawn=True),
    ]
    note = "Calls per second of clients that share a core: mostly what the clients' core can do, not the server's."
    return Table("more", "The other figures", columns, _measured(results, columns, in_family=True), note)


def _measured(results: Sequence[Results], columns: Sequence[Column], *, in_family: bool = False) -> list[Row]:
    """Rows with a figure: why another has none is told in the first tables."""
    return [row for each in results if not each.failure and (row := each.row(columns, in_family=in_family)).figures]


def _slowest(course: Course) -> str:
    return "" if course.calls >= 100 else f"Of {course.calls} calls the p99 is the slowest. "
