"""What a chart is made of: SVG that stretches to whatever room it has; labels are the page's text, which doesn't."""

import math
from dataclasses import dataclass, field

WIDTH, HEIGHT = 1000, 300
"""Of the drawing, in units of its own."""


@dataclass(frozen=True)
class Tick:
    """A label on an axis."""

    at: float
    """Percent of the axis' length, from its start."""
    label: str


@dataclass(frozen=True)
class Shape:
    """A polygon or a line."""

    css: str
    """Its class: what it is, and with that its colour."""
    points: list[tuple[float, float]]
    title: str = ""
    """What is shown where the pointer rests."""

    @property
    def path(self) -> str:
        """Its points as SVG has them."""
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in self.points)


@dataclass(frozen=True)
class Chart:
    """One chart."""

    title: str
    unit: str
    """Of the upright axis."""
    across: list[Tick]
    upright: list[Tick]
    areas: list[Shape] = field(default_factory=list)
    lines: list[Shape] = field(default_factory=list)
    legend: list[tuple[str, str]] = field(default_factory=list)
    """Class and words."""


def colour(number: int) -> str:
    """The class of a colour: of the replica or the line with that number. There are eight."""
    return f"c{number % 8}"


def scale_of(most: float) -> tuple[float, list[Tick]]:
    """Units of the drawing for each unit of the axis, and its ticks at round numbers."""
    if most <= 0:
        return 0.0, [Tick(0, "0")]
    rough = most / 4
    decade = 10.0 ** math.floor(math.log10(rough))
    step = next(decade * factor for factor in (1, 2, 2.5, 5, 10) if decade * factor >= rough * 0.999)
    count = math.ceil(round(most / step, 6))
    ticks = [Tick(100 * number / count, f"{number * step:,.12g}") for number in range(count + 1)]
    return HEIGHT / (count * step), ticks
