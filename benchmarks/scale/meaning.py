"""What the figures say, in words."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from benchmarks.scale.course import Course, Ladder
from benchmarks.scale.room import Room
from benchmarks.study.model import evaluate
from benchmarks.study.study import Model
from benchmarks.study.words import number

_LINEAR = (95.0, 105.0)
"""Percent of one replica's calls, within which each of many answers as many as one."""

_STANDS = (90.0, 110.0)
"""Percent of a call's CPU time with a whole core, within which a share is a small core."""

_STARVED = 0.95
"""Of its share: a replica that used less didn't get it, or had to wait."""

_TOOL_MS = 5.0


def sentence(ladder: Ladder, found: Model | None) -> str:
    """All of it in one sentence."""
    last = ladder.last
    if last is None:
        return "More than one replica could not be measured here."
    text = (
        f"{last.replicas} replicas answered {number(last.replicas * ladder.efficiency / 100)} times the calls of one, "
        f"at {number(_cpu(last))} µs of CPU time for each instead of {number(_cpu(ladder.steps[0]))}"
    )
    if found is None:
        return f"{text}."
    values = evaluate(found)
    return (
        f"{text}; by the model, {number(values['agents'])} agents with {number(values['agent_calls'])} calls a minute "
        f"each would take {number(values['replicas'])} cores, with {number(values['tool_ms'])} ms for the tool's own "
        "work."
    )


def meaning(ladders: Sequence[Ladder], room: Room, found: Model | None) -> str:
    """What it means for a user, and what it can't show."""
    said = [_scaled(ladder, ladder.last, room) for ladder in ladders if ladder.last]
    said = said or ["Whether twice the replicas give twice the calls could not be measured here."]
    return " ".join([*said, *_shares(ladders[0], room), _UNSEEN, *([_extrapolated(found)] if found else [])])


_UNSEEN = (
    "This shows whether replicas hold each other up on one machine. It can't show what a network, a balancer, TLS or a "
    "shared Redis costs, nor when one of these is full."
)


def _cpu(course: Course) -> float:
    return median(each.cpu_us for each in course.rounds.values())


def _scaled(ladder: Ladder, last: Course, room: Room) -> str:
    low, high = _LINEAR
    each = ladder.efficiency
    text = f"With {last.replicas} replicas each answered {number(each)} % of what one alone did ({ladder.title})"
    if room.share is not None and median(figures.used for figures in last.rounds.values()) < _STARVED * room.share:
        return (
            f"{text}, but they didn't use the shares that they had: the machine did something else, too. By the CPU "
            f"time of a call, one's beside theirs, it would be {number(100 * _cpu(ladder.steps[0]) / _cpu(last))} %."
        )
    if low <= each <= high:
        return f"{text}: the claim holds."
    return f"{text}: {'less' if each < low else 'more'} than the claim says."


def _shares(ladder: Ladder, room: Room) -> list[str]:
    single, whole = ladder.steps[0].rounds, ladder.whole.rounds
    both = single.keys() & whole.keys()
    if room.share is None or not both:
        return []
    low, high = _STANDS
    each = median(100 * single[at].cpu_us / whole[at].cpu_us for at in both)
    verdict = "is a small core" if low <= each <= high else "is not just a small core"
    text = (
        f"Each replica had {100 * room.share:.0f} % of a core. A call took {number(each)} % of the CPU time there that "
        f"it takes with all of a core, so such a share {verdict}."
    )
    return [text]


def _extrapolated(found: Model) -> str:
    values = evaluate(found)
    busy = replace(
        found,
        assumptions=[replace(each, value=_TOOL_MS) if each.name == "tool_ms" else each for each in found.assumptions],
    )
    return (
        f"The model multiplies: {number(values['calls'])} calls a second would take {number(values['replicas'])} "
        f"replicas with a core each, {number(values['machines'])} machines, {number(values['memory'])} GB of memory "
        f"and ${number(values['hour'])} an hour, {number(values['million'])} ¢ for a million calls; at "
        f"{number(values['published_rate'])} calls a second and server, as published elsewhere, it would "
        f"be {number(values['published'])} servers. This is the template's part and no plan: the tool's own "
        f"work is taken as {number(values['tool_ms'])} ms of CPU time a call. With {_TOOL_MS:g} ms it would be "
        f"{number(evaluate(busy)['replicas'])} replicas. Change tool_ms, and whatever else doesn't fit, in the page or "
        "with --assume."
    )
