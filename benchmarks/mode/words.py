"""The figures in words; nothing here is known before it is measured."""

from benchmarks.mode.cases import AFFINITY, ALONE, MODERN, STATELESS, STORE, Case
from benchmarks.mode.fleet import REPLICAS
from benchmarks.mode.phases import LATER_SECONDS, Plan
from benchmarks.spread import Spread
from benchmarks.study.study import Row, Table
from benchmarks.study.words import figure, number

_WHAT_HARMS = {
    "kill_sessions": ("session", "a kill"),
    "update_calls": ("call", "an update"),
    "update_sessions": ("session", "an update"),
}


def harms(row: Row) -> list[str]:
    """What happened to a case that should not have, in its worst round; nothing if it came through everything.

    Calls that a killed replica was working on don't count: they are lost in every mode.
    """
    found = []
    success = row.figures["success"]
    if success.min < 100:
        found.append(f"answered {number(success.min)} % of its calls")
    for name, (what, event) in _WHAT_HARMS.items():
        if name in row.figures and (lost := row.figures[name].max):
            found.append(f"lost {number(lost)} {what if lost == 1 else f'{what}s'} by {event}")
    return found


def sentence(modes: Table) -> str:
    """Whether the claim holds, in one sentence."""
    measured = [row for row in modes.rows if _complete(row)]
    ours = {STATELESS.name, MODERN.name}
    stateless, others = ([row for row in measured if (row.name in ours) is which] for which in (True, False))
    if not stateless or not others:
        return "Too little was measured to say whether the claim holds."
    harmed = [f"{row.title}, {' and '.join(harms(row))}" for row in stateless if harms(row)]
    if harmed:
        return f"The claim does not hold in this run: {'; '.join(harmed)}."
    equals = [row for row in others if not harms(row)]
    killed = number(max(row.figures["kill_calls"].max for row in stateless))
    fact = f"Stateless replicas answered every call in calm and through an update, and a kill cost {killed} at most"
    if any(row.name == ALONE.name for row in equals):
        return f"{fact}; but so did sessions without affinity and without a store, so the claim is not shown."
    if equals:
        names = " and ".join(row.title for row in equals)
        return f"{fact}, without affinity and without a store; {names} did as well, with what the claim does without."
    return f"{fact}, without affinity and without a store; no mode with sessions that was measured came through that."


def meaning(modes: Table, plan: Plan) -> str:
    """What that means for a user, and what it can't show."""
    parts = [say(row, plan.clients) for case, say in _SAYINGS if (row := _row(modes, case))]
    kept = {STORE.name, STATELESS.name, MODERN.name}
    killed = [row.figures["kill_calls"].median for row in modes.rows if _complete(row) and row.name in kept]
    if killed:
        parts.append(
            f"A kill costs every mode the calls that the replica was working on, about "
            f"{number(plan.rate * LATER_SECONDS / REPLICAS)} here; {_between(killed)} were lost where no session is "
            "lost with it."
        )
    parts.append(
        "The difference in CPU time is not all the sessions': with them the SDK answers, without them this server's "
        "own path. What this can't show: replicas on machines of their own, a network that loses packets, sessions "
        "that hold more than what initialize said. The proxy and Redis never failed here; affinity and the store need "
        "theirs."
    )
    return " ".join(parts)


def _alone(row: Row, _: int) -> str:
    success = row.figures["success"]
    if success.min == 100:
        return "Sessions without affinity were answered, too, which is not what one would expect."
    return (
        f"Sessions behind a plain round robin do not work: {figure(success)} % of calls were answered, since each "
        "session is known to the one replica that opened it."
    )


def _affinity(row: Row, clients: int) -> str:
    return (
        f"With affinity {figure(row.figures['success'])} % were answered while nothing happened ({_cpu(row)}), and no "
        f"server has to be changed. A session lives and dies with its replica: with {clients} clients, "
        f"{_count(row, 'kill_sessions')} were lost by a kill and {_count(row, 'update_sessions')} by an update."
    )


def _store(row: Row, clients: int) -> str:
    return (
        f"With a shared store {figure(row.figures['success'])} % were answered ({_cpu(row)}); of the sessions of "
        f"{clients} clients, {_count(row, 'kill_sessions')} were lost by a kill and {_count(row, 'update_sessions')} "
        "by an update. It is one more service that has to be there, and keeps only what is written into it."
    )


def _stateless(row: Row, _: int) -> str:
    return (
        f"Stateless replicas answered {figure(row.figures['success'])} % ({_cpu(row)}); there is no session to lose, "
        f"and an update lost {_count(row, 'update_calls')} of the calls. What they can't do is to ask a client of "
        "the handshake protocol something in the midst of a call."
    )


_SAYINGS = [(ALONE, _alone), (AFFINITY, _affinity), (STORE, _store), (STATELESS, _stateless)]


def _row(modes: Table, case: Case) -> Row | None:
    return next((row for row in modes.rows if row.name == case.name and _complete(row)), None)


def _complete(row: Row) -> bool:
    wanted = {"success"} if row.name == ALONE.name else {"success", "kill_calls", *_WHAT_HARMS}
    return not row.failure and wanted <= row.figures.keys()


def _cpu(row: Row) -> str:
    spread = row.figures.get("cpu")
    return f"{figure(spread)} µs of CPU time a call" if spread else "so no CPU time for one"


def _count(row: Row, name: str) -> str:
    spread: Spread = row.figures[name]
    return "none" if spread.max == 0 else figure(spread)


def _between(values: list[float]) -> str:
    least, most = min(values), max(values)
    return number(least) if least == most else f"{number(least)} to {number(most)}"
