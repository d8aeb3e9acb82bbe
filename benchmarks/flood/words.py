"""What the figures mean, said only where they were measured."""

from collections.abc import Sequence

from benchmarks.flood.cases import BOUNDED, CONNECTIONS, DEFAULT, STATELESS, UNBOUNDED, Case
from benchmarks.flood.endurance import MINIMAL
from benchmarks.scenarios import ECHO, FLOOR
from benchmarks.study.study import Table
from benchmarks.study.words import number

FLAT_MB = 2.0
"""Growth of a replica's memory that counts as none."""
LITTLE = 0.1
"""Share of what a session takes that counts as nothing kept of a client."""
BUSY = 90.0
"""Per cent of the time in which a server works, below which its rate is rather the load's."""

_LIMITS = (
    "This can't show what an open event stream of each client would take, nor clients that are far away. And a flood "
    "takes the CPU of every server, with sessions or without: bounds on each caller's rate are for that."
)


def sentence(flood: Table, long: Table) -> str:
    """What was found, in one sentence."""
    parts = [part for part in (_sessions(flood), _bounds(flood), _stateless(flood), _flat(long)) if part]
    text = "; ".join(parts) or "nothing was measured"
    return f"{text[:1].upper()}{text[1:]}."


def meaning(cases: Sequence[Case], flood: Table, beside: Table, long: Table) -> str:
    """What it means for a user, in a paragraph."""
    parts = [
        _verdict(flood, long),
        _felt(cases, flood, beside),
        _afterwards(cases, beside),
        _connections(flood),
        _throughput(long),
        _LIMITS,
    ]
    return " ".join(part for part in parts if part)


def _sessions(flood: Table) -> str:
    kept, let_in = flood.median(UNBOUNDED, "kept"), flood.median(UNBOUNDED, "let_in")
    after = flood.median(UNBOUNDED, "memory_after")
    if kept is None or let_in is None or after is None:
        return ""
    return (
        f"with sessions and no bounds {number(let_in)} clients who never closed left {number(kept)} kB each, "
        f"{number(after)} MB in all"
    )


def _bounds(flood: Table) -> str:
    found = []
    for name, whose in ((DEFAULT, "the SDK's bounds"), (BOUNDED, "tighter bounds")):
        refused, after = flood.median(name, "refused"), flood.median(name, "memory_after")
        if refused is not None and after is not None:
            found.append(f"{whose} {_kept_to(refused, after)}")
    return ", ".join(found)


def _kept_to(refused: float, after: float) -> str:
    if not refused:
        return f"weren't reached ({number(after)} MB)"
    return f"keep the memory at {number(after)} MB and refuse {number(refused)}% of the clients"


def _stateless(flood: Table) -> str:
    before, after = flood.median(STATELESS, "memory_before"), flood.median(STATELESS, "memory_after")
    refused, let_in = flood.median(STATELESS, "refused"), flood.median(STATELESS, "let_in")
    if before is None or after is None or refused is None or let_in is None:
        return ""
    nobody = f"{number(refused)}% were refused" if refused else "none was refused"
    return (
        f"without sessions {number(let_in)} clients took the memory from {number(before)} to {number(after)} MB, and "
        f"{nobody}"
    )


def _flat(long: Table) -> str:
    tenth, half, end = (long.median(ECHO.name, f"memory_{when}") for when in ("tenth", "half", "end"))
    requests = long.median(ECHO.name, "requests")
    if tenth is None or half is None or end is None or requests is None:
        return ""
    return (
        f"over {requests:,.0f} calls such a replica took {number(tenth)} MB after a tenth of them, "
        f"{number(half)} after half, and {number(end)} at the end"
    )


def _verdict(flood: Table, long: Table) -> str:
    kept, session = flood.median(STATELESS, "kept"), flood.median(UNBOUNDED, "kept")
    # An allocator's pools grow for some hundred thousand calls; a leak would grow in the second half as in the first.
    half, end = long.median(ECHO.name, "memory_half"), long.median(ECHO.name, "memory_end")
    grown = (flood.median(STATELESS, "memory_after") or 0) - (flood.median(STATELESS, "memory_before") or 0)
    if kept is None or half is None or end is None:
        return "The claim couldn't be checked: a figure is missing."
    against = []
    for name, where in ((STATELESS, "without sessions"), (CONNECTIONS, "where clients keep their connections")):
        if refused := flood.median(name, "refused"):
            against.append(f"{where} {number(refused)}% of the clients were refused")
        if errors := flood.median(name, "errors"):
            against.append(f"{where} {number(errors)} calls of the good client failed")
    if grown > FLAT_MB and (session is None or kept > LITTLE * session):
        beside = "" if session is None else f", one with a session {number(session)} kB"
        against.append(f"a client without a session took {number(kept)} kB{beside}")
    if end - half > FLAT_MB:
        against.append(f"the stateless replica grew by {number(end - half)} MB over the second half of its calls")
    if against:
        return f"The claim doesn't hold as it stands: {'; '.join(against)}."
    left = f"only {number(kept)} kB" if grown > FLAT_MB else "nothing"
    return (
        f"The claim holds: who never closes leaves {left} behind where nothing was opened, so there is no bound to "
        "choose, and nobody to refuse once it is reached."
    )


def _felt(cases: Sequence[Case], flood: Table, beside: Table) -> str:
    found = []
    for case in cases:
        before, during = beside.median(case.name, "p99_before"), flood.median(case.name, "p99")
        errors = flood.median(case.name, "errors")
        if before is not None and during is not None:
            failed = f" and {number(errors)} errors" if errors else ""
            found.append(f"{number(before)} → {number(during)} ms{failed} ({case.title})")
    if not found:
        return ""
    return f"The good client's p99 before the flood, which takes the server's core, and beside it: {'; '.join(found)}."


def _afterwards(cases: Sequence[Case], beside: Table) -> str:
    away = [(case, beside.median(case.name, "turned_away")) for case in cases]
    found = [f"{number(share)}% ({case.title})" for case, share in away if share]
    if not found:
        return "When the flood was over, every newcomer was let in everywhere." if any(s == 0 for _, s in away) else ""
    return f"When the flood was over, newcomers were still refused: {'; '.join(found)}."


def _connections(flood: Table) -> str:
    refused, grown = flood.median(CONNECTIONS, "refused"), flood.median(CONNECTIONS, "kept")
    let_in, before = flood.median(CONNECTIONS, "let_in"), flood.median(CONNECTIONS, "memory_before")
    after = flood.median(CONNECTIONS, "memory_after")
    if refused is None or grown is None or let_in is None or before is None or after is None:
        return ""
    nobody = f"{number(refused)}% were refused" if refused else "none was refused"
    return (
        "What clients can still leave open is connections: one more takes the place of the one that was idle for "
        f"longest, so {number(let_in)} clients on connections of their own took the memory from {number(before)} to "
        f"{number(after)} MB, and {nobody}."
    )


def _throughput(long: Table) -> str:
    names = "of_minimal", "of_floor", "rate"
    minimal, floor, rate = (long.median(ECHO.name, name) for name in names)
    if minimal is None or floor is None or rate is None:
        return ""
    waited = [
        row.title
        for row in long.rows
        if row.name in (ECHO.name, MINIMAL.name, FLOOR.name) and (long.median(row.name, "busy") or 0) < BUSY
    ]
    limited = f" (while a server waited for the load or the machine: {'; '.join(waited)})" if waited else ""
    return (
        f"One replica on one core answered {number(rate)} calls/s, {number(minimal)}% of its minimal route and "
        f"{number(floor)}% of the floor{limited}; a minimal route in the same framework isn't the least possible, "
        "which is what the floor is for."
    )
