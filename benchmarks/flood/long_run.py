"""The long run's figures as a table and a plot."""

from collections.abc import Callable, Sequence

from benchmarks.flood.endurance import MINIMAL, Endurance
from benchmarks.sample import Sample
from benchmarks.scenarios import ECHO, FLOOR
from benchmarks.study.study import Column, Line, Plot, Row, Table, row_of

_COLUMNS = [
    Column("requests", "requests"),
    Column("rate", "rate", "/s", "more", drawn=True),
    Column("of_minimal", "of minimal", "%", "more"),
    Column("of_floor", "of the floor", "%", "more"),
    Column("cpu", "CPU", "µs", "less", drawn=True),
    Column("busy", "busy", "%"),
    Column("p50", "p50", "ms", "less"),
    Column("p99", "p99", "ms", "less"),
    Column("memory_tenth", "after a tenth", "MB"),
    Column("memory_half", "after half", "MB"),
    Column("memory_end", "at the end", "MB", "less"),
]


def long_table(found: Endurance, wanted: int) -> Table:
    """The stateless replica over a long time, beside its minimal route and the floor.

    Args:
        wanted: how many requests there were to be.
    """
    note = (
        "Medians of turns of up to some seconds, one server's after the other's, on 32 connections. The floor answers "
        "the same call with nothing but HTTP and JSON; the minimal route is one of Starlette's. Busy: share of the "
        "time in which the server worked. Memory: after a tenth of the requests, and after the last."
    )
    if found.requests < wanted and not found.failure:
        note += f" It ended after {found.requests:,} of {wanted:,} requests, since the time was up."
    if found.failure:
        return Table(
            "long", "One replica, many requests", _COLUMNS, [Row(ECHO.name, _TITLE, failure=found.failure)], note
        )
    samples = found.samples
    echo, minimal, floor = samples[ECHO.name], samples[MINIMAL.name], samples[FLOOR.name]
    memory: dict[str, Sequence[float]] = {
        "requests": [found.requests],
        "memory_tenth": [found.mb_after(0.1)],
        "memory_half": [found.mb_after(0.5)],
        "memory_end": [found.end_mb],
    }
    shares: dict[str, Sequence[float]] = {"of_minimal": _shares(echo, minimal), "of_floor": _shares(echo, floor)}
    rows = [
        row_of(ECHO.name, _TITLE, {**_figures(echo), **shares, **memory}),
        row_of(
            MINIMAL.name, "its minimal route, GET /healthz", {**_figures(minimal), "of_floor": _shares(minimal, floor)}
        ),
        row_of(FLOOR.name, FLOOR.title, _figures(floor)),
    ]
    return Table("long", "One replica, many requests", _COLUMNS, rows, note)


_TITLE = "stateless, calls of echo"


def long_plot(found: Endurance) -> Plot:
    """The replica's memory over requests."""
    return Plot("Memory of the stateless replica over thousands of requests", "k", "MB", [Line(_TITLE, found.memory)])


def _figures(samples: Sequence[Sample]) -> dict[str, Sequence[float]]:
    def each(figure: Callable[[Sample], float]) -> list[float]:
        return [figure(sample) for sample in samples]

    return {
        "rate": each(lambda sample: sample.per_second),
        "cpu": each(lambda sample: sample.cpu_us),
        "busy": each(lambda sample: 100 * sample.busy),
        "p50": each(lambda sample: sample.p50_ms),
        "p99": each(lambda sample: sample.p99_ms),
    }


def _shares(mine: Sequence[Sample], other: Sequence[Sample]) -> list[float]:
    """Rates as per cent of another's in the same turn."""
    return [100 * one.per_second / two.per_second for one, two in zip(mine, other, strict=True)]
