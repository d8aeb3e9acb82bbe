"""The HTML report: one self-contained page, for example for a pull request or an incident report."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2

from anyreplica.load.summary import Slice, Summary

WIDTH, HEIGHT = 1000, 300
"""Size of the drawing, in units of the SVG's viewBox."""


@dataclass(frozen=True)
class Tick:
    """A label on an axis."""

    at: float
    """Position in percent of the axis' length, from its start."""
    label: str


@dataclass(frozen=True)
class Shape:
    """A polygon or a line."""

    css: str
    """The CSS class, which sets the colour."""
    points: list[tuple[float, float]]
    title: str = ""
    """The tooltip; empty: none."""

    @property
    def path(self) -> str:
        """The points in SVG notation."""
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in self.points)


@dataclass(frozen=True)
class Chart:
    """One chart.

    The SVG stretches to the width of the page. The labels are HTML text outside of the SVG, so they do not stretch.
    """

    title: str
    unit: str
    """Unit of the vertical axis."""
    across: list[Tick]
    upright: list[Tick]
    areas: list[Shape] = field(default_factory=list)
    lines: list[Shape] = field(default_factory=list)
    legend: list[tuple[str, str]] = field(default_factory=list)
    """Pairs of a CSS class and a label."""


def colour(number: int) -> str:
    """Return the CSS class of the colour for a replica or line with this number; there are eight colours."""
    return f"c{number % 8}"


def scale_of(most: float) -> tuple[float, list[Tick]]:
    """Return the scale (units of the drawing per unit of the axis) and ticks at round numbers.

    The lowest tick is 0. The highest tick is `most` or a little more, and is the end of the axis.
    """
    if most <= 0:
        return 0.0, [Tick(0, "0")]
    rough = most / 4
    decade = 10.0 ** math.floor(math.log10(rough))
    step = next(decade * factor for factor in (1, 2, 2.5, 5, 10) if decade * factor >= rough * 0.999)
    count = math.ceil(round(most / step, 6))
    ticks = [Tick(100 * number / count, f"{number * step:,.12g}") for number in range(count + 1)]
    return HEIGHT / (count * step), ticks


def charts(summary: Summary) -> list[Chart]:
    """Return the charts of a run; the run must have at least one request."""
    shown = [_replicas(summary), _latencies(summary), _histogram(summary)]
    return [*shown, _failures(summary)] if summary.failed else shown


def _replicas(summary: Summary) -> Chart:
    slices, names = summary.slices, [replica.name for replica in summary.replicas]
    tops = [sum(each.replicas.values()) / each.seconds for each in slices]
    scale, upright = scale_of(max(tops, default=0))
    areas = []
    below = [0.0] * len(slices)
    for number, name in enumerate(names):
        above = [base + each.replicas.get(name, 0) / each.seconds for base, each in zip(below, slices, strict=True)]
        areas.append(Shape(colour(number), [*_steps(slices, above, scale), *reversed(_steps(slices, below, scale))]))
        below = above
    legend = [(colour(number), name) for number, name in enumerate(names)]
    return Chart("Requests by replica", "per second", _time(slices), upright, [*areas, *_hover(slices)], [], legend)


def _latencies(summary: Summary) -> Chart:
    slices = summary.slices
    scale, upright = scale_of(max((each.p99 or 0 for each in slices), default=0))

    def line(css: str, value: Callable[[Slice], float | None]) -> Shape:
        shown = [(each, figure) for each in slices if (figure := value(each)) is not None]
        return Shape(css, [(_middle(slices, each), HEIGHT - figure * scale) for each, figure in shown])

    lines = [line("p99", lambda each: each.p99), line("p50", lambda each: each.p50)]
    legend = [("p50", "p50"), ("p99", "p99")]
    return Chart("Latency over time", "ms", _time(slices), upright, _hover(slices), lines, legend)


def _histogram(summary: Summary) -> Chart:
    buckets = summary.histogram
    scale, upright = scale_of(max((bucket.count for bucket in buckets), default=0))
    width = WIDTH / max(1, len(buckets))
    bars = [
        Shape(
            "bar",
            _box(number * width + width * 0.06, (number + 1) * width - width * 0.06, 0, bucket.count * scale),
            f"up to {bucket.up_to_ms:g} ms: {bucket.count:,}",
        )
        for number, bucket in enumerate(buckets)
    ]
    every = max(1, math.ceil(len(buckets) / 6))
    across = [
        Tick((number + 0.5) * 100 / len(buckets), f"{bucket.up_to_ms:g} ms")
        for number, bucket in enumerate(buckets)
        if number % every == every // 2
    ]
    return Chart("Latency of successful requests", "requests", across, upright, bars)


def _failures(summary: Summary) -> Chart:
    slices = summary.slices
    scale, upright = scale_of(max((each.failed / each.seconds for each in slices), default=0))
    bars = []
    for each in slices:
        if each.failed:
            left, right = _edges(slices, each)
            bars.append(Shape("failed", _box(left, right, 0, each.failed / each.seconds * scale)))
    return Chart("Failed requests", "per second", _time(slices), upright, [*bars, *_hover(slices)])


def _time(slices: Sequence[Slice]) -> list[Tick]:
    end = slices[-1].at + slices[-1].seconds
    return [Tick(share, f"{end * share / 100:.3g} s") for share in (0, 25, 50, 75, 100)]


def _edges(slices: Sequence[Slice], each: Slice) -> tuple[float, float]:
    end = slices[-1].at + slices[-1].seconds
    return WIDTH * each.at / end, WIDTH * (each.at + each.seconds) / end


def _middle(slices: Sequence[Slice], each: Slice) -> float:
    return sum(_edges(slices, each)) / 2


def _steps(slices: Sequence[Slice], values: Sequence[float], scale: float) -> list[tuple[float, float]]:
    """Return the points of an area's upper edge; the area has one value per slice."""
    points = []
    for each, value in zip(slices, values, strict=True):
        left, right = _edges(slices, each)
        points += [(left, HEIGHT - value * scale), (right, HEIGHT - value * scale)]
    return points


def _box(left: float, right: float, low: float, high: float) -> list[tuple[float, float]]:
    return [(left, HEIGHT - low), (left, HEIGHT - high), (right, HEIGHT - high), (right, HEIGHT - low)]


def _hover(slices: Sequence[Slice]) -> list[Shape]:
    """Return invisible columns, one per slice; their tooltips show the figures of the slice."""
    return [Shape("hover", _box(*_edges(slices, each), 0, HEIGHT), _words(each)) for each in slices]


def _words(each: Slice) -> str:
    figures = [f"{each.requests / each.seconds:,.0f}/s"]
    if each.p50 is not None and each.p99 is not None:
        figures.append(f"p50 {each.p50:g} ms, p99 {each.p99:g} ms")
    figures.append(f"{each.failed:,} failed")
    replicas = [f"{name}: {count:,}" for name, count in each.replicas.items()]
    return "\n".join([f"{each.at:g} to {each.at + each.seconds:.3g} s", *figures, *replicas])


def render(summary: Summary, figures: dict[str, Any]) -> str:
    """Return the HTML page of a run.

    Args:
        summary: The summary of the run.
        figures: The result of `output.as_json` for the same run.
    """
    return (
        templates()
        .get_template("page.html")
        .render(
            run=summary,
            figures=figures,
            charts=charts(summary) if summary.requests else [],
            width=WIDTH,
            height=HEIGHT,
            colour=colour,
        )
    )


def templates(*folders: Path) -> jinja2.Environment:
    """Return a template environment for these folders and the load test's own folder, searched in this order.

    `frame.html` and `chart.html` of the load test's folder serve every page.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([*folders, Path(__file__).parent]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["ms"] = lambda value: "–" if value is None else f"{value:,.1f} ms"
    environment.filters["count"] = lambda value: f"{value:,}"
    return environment
