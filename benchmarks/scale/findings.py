"""What the figures are put into: tables, lines, the model."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from statistics import median

from benchmarks.scale.agents import Basis, model, price
from benchmarks.scale.course import ALONE, SCALING, Ladder
from benchmarks.scale.meaning import meaning, sentence
from benchmarks.scale.room import Room
from benchmarks.study.study import Findings, Line, Plot, Table

_PACKAGES = ("fastmcp", "mcp", "uvicorn", "uvloop", "httptools", "orjson")


def findings(ladders: Sequence[Ladder], room: Room, connections: int, assumed: Mapping[str, float]) -> Findings:
    """Everything that is shown.

    Args:
        ladders: the first is what the model starts from.
        connections: to each replica.
        assumed: in place of what is usual or measured.
    """
    prices = price("core_price", assumed), price("gb_price", assumed)
    share = 1.0 if room.share is None else room.share
    tables = [
        Table(
            f"scaling-{number}",
            f"Calls by replicas: {ladder.title}",
            SCALING,
            [step.row(ladder.steps[0], share, prices) for step in ladder.steps],
            _note(ladder, room, connections, prices) if ladder.measured else "",
        )
        for number, ladder in enumerate(ladders)
    ]
    alone = [ladder.whole.row(ladder.whole, 1, prices) for ladder in ladders]
    time = "Calls by CPU time: a second, divided by the CPU time of a call. The model starts from the first row's."
    tables.append(Table("core", "One replica that may use all of a core", ALONE, alone, time))
    basis = _basis(ladders[0])
    found = model(basis, assumed) if basis else None
    return Findings(
        tables,
        sentence=sentence(ladders[0], found),
        meaning=meaning(ladders, room, found),
        plots=_plots(ladders),
        versions={package: version(package) for package in _PACKAGES},
        model=found,
    )


def _note(ladder: Ladder, room: Room, connections: int, prices: tuple[float, float]) -> str:
    each, waits = "a core of its own", ""
    if room.share is not None:
        used = [100 * figures.used / room.share for figures in ladder.measured]
        of_it = f"used {min(used):.0f} to {max(used):.0f} % of that"
        each = f"{100 * room.share:.0f} % of a core, by the kernel's quota, and {of_it}"
        waits = ": the waits for other calls and for the next share are in them"
    return (
        f"Efficiency: calls of each replica, as a share of what one alone answers. Each had {each}. The load opens "
        f"{connections} connections to each replica's own port, so that all get the same: neither a balancer's CPU "
        f"time nor the luck of a hash is in the figures. It took at most "
        f"{100 * max(figures.load_busy for figures in ladder.measured):.0f} % of its own core. p50 and p99 are the "
        f"slowest replica's{waits}. Memory is one replica's. Costs: ${prices[0]:g} for a core and ${prices[1]:g} for a "
        "GB of memory an hour (an assumption, no quote), with all of each share in use."
    )


def _basis(ladder: Ladder) -> Basis | None:
    """What the model starts from; None where no more than one replica was measured."""
    alone = list(ladder.whole.rounds.values())
    if not alone or ladder.whole.failure or ladder.last is None:
        return None
    return Basis(
        core_calls=float(f"{median(1e6 / each.cpu_us for each in alone):.4g}"),
        efficiency=float(f"{ladder.efficiency:.4g}"),
        replica_mb=float(f"{median(each.rss_mb for each in ladder.last.rounds.values()):.4g}"),
    )


def _plots(ladders: Sequence[Ladder]) -> list[Plot]:
    lines = []
    for ladder in ladders:
        points = [
            (float(step.replicas), median(each.rate for each in step.rounds.values()))
            for step in ladder.steps
            if step.rounds
        ]
        if len(points) > 1 and ladder.steps[0].rounds:
            (_, one), (most, _) = points[0], points[-1]
            lines.append(Line(ladder.title, [(0, 0), *points]))
            lines.append(Line(f"{ladder.title}: one replica's, multiplied", [(0, 0), (most, most * one)]))
    return [Plot("Calls by replicas", "replicas", "calls/s", lines)] if lines else []
