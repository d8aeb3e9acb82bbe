"""The parts of a chart.

The SVG stretches to the width of the page. The labels are HTML text outside of the SVG, so they do not stretch.
"""

import math
from dataclasses import dataclass, field

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
    """One chart."""

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
