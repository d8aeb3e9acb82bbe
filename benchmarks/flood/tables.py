"""The flood's figures as tables and plots."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from mcp_swarm.loadtest.latency import percentile

from benchmarks.flood.cases import Case
from benchmarks.flood.course import AT_ONCE, NEWCOMERS, PER_SECOND, Course, Moment
from benchmarks.flood.good_client import Call
from benchmarks.study.study import Column, Line, Plot, Row, Table, row_of

PUBLISHED = (
    "Published elsewhere of a .NET server on 32 threads: 31,000 requests/s, collapsed to 0 after 100,000 unclosed "
    "sessions, about 300/s after back-pressure."
)

_FLOOD = [
    Column("let_in", "let in"),
    Column("refused", "refused", "%", "less"),
    Column("memory_before", "before", "MB"),
    Column("memory_after", "memory after", "MB", "less", drawn=True),
    Column("kept", "per client", "kB", "less"),
    Column("p50", "good p50", "ms", "less"),
    Column("p99", "good p99", "ms", "less", drawn=True),
    Column("errors", "errors", "", "less"),
    Column("rate", "let in", "/s", "more", drawn=True),
]
_BESIDE = [
    Column("p50_before", "p50 before", "ms", "less"),
    Column("p99_before", "p99 before", "ms", "less"),
    Column("p50_after", "p50 after", "ms", "less"),
    Column("p99_after", "p99 after", "ms", "less"),
    Column("errors_after", "errors", "", "less"),
    Column("turned_away", "newcomers refused", "%", "less", drawn=True),
    Column("cpu", "CPU per client", "µs", "less"),
]


def flood_table(
    cases: Sequence[Case], courses: Mapping[str, list[Course]], rows: Mapping[str, Row], most: int
) -> Table:
    """What the flood did to each server.

    Args:
        rows: those that stand for cases without figures, by name.
        most: connections, where each client makes its own.
    """
    note = (
        f"Sessions: how many there may be, and when an idle one is closed. {AT_ONCE} clients at any time say "
        "initialize, on connections that are kept, as fast as they are answered, and never come back; with "
        f"own connections each makes one and leaves it open, of which the server keeps {most:,}. Memory: resident, "
        f"before and after the flood. Good: a client with a call of echo due {PER_SECOND} times a second during the "
        f"flood. {PUBLISHED}"
    )
    if full := [case.title for case in cases if any(course.full for course in courses.get(case.name, ()))]:
        note += f" Stopped early since it had taken all the memory it may: {'; '.join(full)}."
    return Table("flood", "Clients that never close", _FLOOD, _rows(cases, courses, rows, _flooded), note)


def beside_table(cases: Sequence[Case], courses: Mapping[str, list[Course]], rows: Mapping[str, Row]) -> Table:
    """What of the flood is felt before and after it; arguments as for `flood_table`."""
    note = (
        f"The same good client while nobody else calls; errors: after the flood. Newcomers: {NEWCOMERS} clients who "
        "come at the end. CPU: the server's for each client of the flood, the good client's calls included."
    )
    return Table("beside", "Before and after the flood", _BESIDE, _rows(cases, courses, rows, _beside), note)


def _rows(
    cases: Sequence[Case],
    courses: Mapping[str, list[Course]],
    rows: Mapping[str, Row],
    figures: Callable[[Course], dict[str, float]],
) -> list[Row]:
    return [rows.get(case.name) or _row(case, [figures(course) for course in courses[case.name]]) for case in cases]


def _row(case: Case, rounds: list[dict[str, float]]) -> Row:
    names = dict.fromkeys(name for figures in rounds for name in figures)
    return row_of(case.name, case.title, {name: [each[name] for each in rounds if name in each] for name in names})


def _flooded(course: Course) -> dict[str, float]:
    came = course.let_in + course.refused
    grown = course.after_mb - course.before_mb
    return {
        "let_in": course.let_in,
        "refused": 100 * course.refused / came if came else 0,
        "memory_before": course.before_mb,
        "memory_after": course.after_mb,
        **({"kept": max(0, grown) * 1e3 / course.let_in} if course.let_in else {}),
        **_latencies(course.during),
        "errors": sum(1 for call in course.during if call.error),
        "rate": course.let_in / course.seconds,
    }


def _beside(course: Course) -> dict[str, float]:
    came = course.let_in + course.refused
    return {
        **_latencies(course.before, "_before"),
        **_latencies(course.after, "_after"),
        "errors_after": sum(1 for call in course.after if call.error),
        "turned_away": 100 * course.turned_away / NEWCOMERS,
        **({"cpu": course.cpu_seconds * 1e6 / came} if came else {}),
    }


def _latencies(calls: Sequence[Call], when: str = "") -> dict[str, float]:
    ordered = sorted(call.ms for call in calls if not call.error)
    return {f"p{percent}{when}": percentile(ordered, percent) for percent in (50, 99)} if ordered else {}


def plots(cases: Sequence[Case], courses: Mapping[str, list[Course]]) -> list[Plot]:
    """The first round over time: memory, clients let in and refused, and what the good client felt."""
    first = [(case.title, courses[case.name][0]) for case in cases if courses.get(case.name)]

    def plot(title: str, upright: str, points: Callable[[Course], list[tuple[float, float]]]) -> Plot:
        return Plot(title, "s", upright, [Line(name, points(course)) for name, course in first])

    return [
        plot("Memory around the flood", "MB", lambda course: [(m.second, m.mb) for m in course.moments]),
        plot("Clients let in", "/s", lambda course: _per_second(course.moments, lambda moment: moment.let_in)),
        plot("Clients refused", "/s", lambda course: _per_second(course.moments, lambda moment: moment.refused)),
        plot("The good client's slowest call of the moment", "ms", _slowest),
    ]


def _per_second(moments: Sequence[Moment], count: Callable[[Moment], int]) -> list[tuple[float, float]]:
    return [
        (later.second, (count(later) - count(earlier)) / (later.second - earlier.second))
        for earlier, later in pairwise(moments)
    ]


def _slowest(course: Course) -> list[tuple[float, float]]:
    """The slowest of the calls that were due between two moments, errors too."""
    found = []
    for earlier, later in pairwise(course.moments):
        span = [call.ms for call in course.calls if earlier.second <= call.due - course.start < later.second]
        if span:
            found.append((later.second, max(span)))
    return found
