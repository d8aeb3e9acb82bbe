"""What the figures say, in tables and in words."""

from collections.abc import Sequence
from importlib.metadata import version

from benchmarks.peer.course import MANY, ONE, Course
from benchmarks.peer.measure import Measured
from benchmarks.peer.servers import BOTH, GO_SDK, OURS, Server
from benchmarks.spread import Spread
from benchmarks.study.study import Column, Findings, Row, Table, row_of
from benchmarks.study.words import number
from benchmarks.wire import Family

_PYTHON = ("fastmcp", "mcp", "uvicorn", "uvloop", "httptools", "orjson")
_COSTS = [
    Column("cpu", "CPU per call, 2025-11-25", "µs", "less", drawn=True),
    Column("floor", "to the floor's", "×", "less"),
    Column("ours", "to ours", "×"),
    Column("cpu_2026", "CPU per call, 2026-07-28", "µs", "less", drawn=True),
    Column("ours_2026", "to ours, 2026-07-28", "×"),
    Column("rate", "calls per second, 2025-11-25", "/s", "more"),
    Column("memory", "memory", "MB", "less", drawn=True),
]
_TIMES = [
    Column("rate", "calls per second", "/s", "more"),
    Column("p50", "p50", "ms", "less"),
    Column("p99", "p99", "ms", "less"),
    Column("floor", "CPU to the floor's", "×", "less"),
    Column("cpu_alone", "one at a time: CPU per call", "µs", "less"),
    Column("p50_alone", "p50", "ms", "less"),
    Column("p99_alone", "p99", "ms", "less"),
]
_COSTS_NOTE = (
    "Each server is one process on one core, the others idle meanwhile, with 32 calls in flight; stateless, one JSON "
    "document a reply, every reply checked. A ratio is by the floor's CPU time right before, in the same round. "
    "The template writes a line of its access log for each call and answers with structured content beside the text; "
    "the official SDKs do neither here."
)
_LIMITS = (
    "The echo does nothing, so this is what the SDK and its HTTP server cost; a tool that works for some milliseconds "
    "hides most of it. One core each compares like with like, but Go and Rust use more cores in one process where "
    "Python and Node take a process, and its memory, for each. The template's figure is that of its fast path, which "
    "takes all calls of plain tools (`GET /version` says which tools are)."
)


def findings(measured: Measured, *, quick: bool) -> Findings:
    """The tables, and what they mean."""
    ours = {course.family: course for course in measured.courses.get(OURS, ()) if not course.failure}
    costs = Table("costs", "A call of the echo", _COSTS, [_cost(measured, each, ours) for each in measured.servers])
    unknown = "".join(f" The {each.title} doesn't know {Family.STATELESS.value}." for each in _one_era(measured))
    times = Table(
        "times",
        "The same, by protocol: 32 calls in flight, and one",
        _TIMES,
        [_time(course) for each in measured.courses.values() for course in each if not course.failure],
        "With 32 in flight a call waits for the 31 before it: p50 follows from the rate.",
    )
    rough = " Node compiles what is called often; in a quick run it has hardly begun." if quick else ""
    return Findings(
        tables=[Table(costs.name, costs.title, costs.columns, costs.rows, _COSTS_NOTE + unknown), times],
        sentence=sentence(costs),
        meaning=f"{sentence(costs)} {_others(costs)}{_LIMITS}{rough}",
        versions={name: version(name) for name in _PYTHON} | measured.versions,
    )


def sentence(costs: Table) -> str:
    """What became of the claim."""
    told, ratios = [], []
    go = next((row for row in costs.rows if row.name == GO_SDK), Row(GO_SDK, ""))
    for family, cpu, ratio in ((Family.HANDSHAKE, "cpu", "ours"), (Family.STATELESS, "cpu_2026", "ours_2026")):
        mine, theirs = costs.median(OURS, cpu), costs.median(GO_SDK, cpu)
        if mine is not None and theirs is not None:
            ratios.append(go.figures[ratio])
            told.append(f"{number(mine)} µs against {number(theirs)} µs in {family.value}")
    if not told:
        return "Whether a call costs less here than on the official Go SDK wasn't measured."
    return f"{_verdict(ratios)} this template less CPU time than the official Go SDK: {', and '.join(told)}."


def _verdict(ratios: list[Spread]) -> str:
    """What Go's CPU time as a multiple of ours says, by protocol."""
    if all(ratio.min > 1 for ratio in ratios):
        return "In every round a call costs"
    if all(ratio.max < 1 for ratio in ratios):
        return "In no round does a call cost"
    return "It depends on the round, or on the family, whether a call costs"


def _others(costs: Table) -> str:
    told = []
    for row in costs.rows:
        ratios = [row.figures[name].median for name in ("ours", "ours_2026") if name in row.figures]
        if ratios and row.name != OURS:
            told.append(f"{row.title} {' and '.join(f'{number(ratio)}×' for ratio in ratios)}")
    return f"As multiples of the template's (2025-11-25 and 2026-07-28): {', '.join(told)}. " if told else ""


def _one_era(measured: Measured) -> list[Server]:
    return [each for each in measured.servers if each.kit and len(each.families) < len(BOTH)]


def _cost(measured: Measured, server: Server, ours: dict[Family, Course]) -> Row:
    if reason := measured.skipped.get(server.name):
        return Row(server.name, server.title, skipped=reason)
    figures: dict[str, Sequence[float]] = {}
    memory: list[float] = []
    for course in measured.courses.get(server.name, ()):
        if course.failure:
            continue
        suffix = "" if course.family is Family.HANDSHAKE else "_2026"
        figures |= {f"cpu{suffix}": [sample.cpu_us for sample in course.samples[MANY]]}
        if not suffix:
            figures |= {"floor": course.ratios, "rate": [sample.per_second for sample in course.samples[MANY]]}
        if mine := ours.get(course.family):
            figures |= {f"ours{suffix}": [a / b for a, b in zip(course.ratios, mine.ratios, strict=True)]}
        memory += course.rss
    figures["memory"] = memory
    return row_of(server.name, server.title, figures, measured.failure_of(server.name))


def _time(course: Course) -> Row:
    many, one = course.samples[MANY], course.samples[ONE]
    figures: dict[str, Sequence[float]] = {
        "rate": [sample.per_second for sample in many],
        "p50": [sample.p50_ms for sample in many],
        "p99": [sample.p99_ms for sample in many],
        "floor": course.ratios,
        "cpu_alone": [sample.cpu_us for sample in one],
        "p50_alone": [sample.p50_ms for sample in one],
        "p99_alone": [sample.p99_ms for sample in one],
    }
    name, title = f"{course.server.name}-{course.family.value}", f"{course.server.title}, {course.family.value}"
    return row_of(name, title, figures)
