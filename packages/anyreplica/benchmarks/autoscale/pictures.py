"""Pictures of the simulation: the load, and the replicas of the autoscaler and of the usual rule.

python -m benchmarks.autoscale.pictures
"""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from anyreplica.load.report.page import scale_of
from benchmarks.autoscale.course import Outcome, simulate
from benchmarks.autoscale.curves import CURVES, Curve
from benchmarks.autoscale.scalers import Autoscaler, ByCpu

FOLDER = Path(__file__).parents[4] / "docs" / "images"

_WIDTH, _HEIGHT = 880, 300
"""Size of the drawing without its axes. `scale_of` draws to this height."""
_LEFT, _TOP, _STRIP = 56, 76, 22
_COLUMNS = 440
"""Number of points of the load: each shows the highest load of its seconds."""

_STYLE = """
    text { font-size: 16px; fill: #334155; }
    .title { font-size: 18px; font-weight: bold; fill: #0f172a; }
    .grid { stroke: #e2e8f0; }
    .load { fill: #cbd5e1; }
    .autoscale { stroke: #0284c7; fill: none; stroke-width: 2.5; }
    .cpu { stroke: #d97706; fill: none; stroke-width: 2; stroke-dasharray: 6 3; }
    .overload { fill: #dc2626; }
    .strip { fill: #e2e8f0; }
    .end { text-anchor: end; }
    .middle { text-anchor: middle; }
  """


def picture(curve: Curve) -> str:
    """Return the picture of a curve in SVG, with the loads of seed 0."""
    loads = curve.loads(0)
    outcomes = {"autoscale": simulate(loads, Autoscaler()), "cpu": simulate(loads, ByCpu())}
    scale, ticks = scale_of(max(*loads, *(max(each.replicas) for each in outcomes.values())))
    bottom = _TOP + _HEIGHT
    parts = [f'<text class="title" x="{_LEFT}" y="30">{curve.title}</text>', _legend()]
    for tick in ticks:
        y = bottom - _HEIGHT * tick.at / 100
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f} h{_WIDTH}"/>')
        parts.append(f'<text class="end" x="{_LEFT - 8}" y="{y + 5:.1f}">{tick.label}</text>')
    parts.append(f'<path class="load" d="{_area(loads, scale)}"/>')
    parts += [f'<path class="{name}" d="{_steps(outcomes[name].replicas, scale)}"/>' for name in ("cpu", "autoscale")]
    parts += [
        _overloads(loads, outcomes["autoscale"], "anyreplica", bottom + 14),
        _overloads(loads, outcomes["cpu"], "CPU rule", bottom + 14 + _STRIP),
    ]
    hours = len(loads) > 2 * 3600
    for number in range(7):
        at = f"{number * len(loads) / 6 / 3600:g} h" if hours else f"{number * len(loads) / 6 / 60:g} min"
        parts.append(
            f'<text class="middle" x="{_LEFT + number * _WIDTH / 6:.1f}" y="{bottom + 3 * _STRIP + 20}">{at}</text>'
        )
    width, height = _LEFT + _WIDTH + 134, bottom + 3 * _STRIP + 36
    box = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    said = _said(curve, outcomes)
    body = "\n  ".join(parts)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" {box} role="img" font-family="Helvetica, Arial, sans-serif">
  <title>{said}</title>
  <style>{_STYLE}</style>
  <rect width="{width}" height="{height}" rx="18" fill="#f8fafc"/>
  {body}
</svg>
"""


def _legend() -> str:
    entries = (
        (0, '<rect class="load" y="-10" width="26" height="12"/>', "load, in replicas"),
        (200, '<path class="autoscale" d="M0 -4 h26"/>', "replicas of anyreplica"),
        (430, '<path class="cpu" d="M0 -4 h26"/>', "replicas of the CPU rule"),
        (670, '<rect class="overload" y="-10" width="26" height="12"/>', "overloaded seconds"),
    )
    found = (f'<g transform="translate({x},0)">{mark}<text x="34">{text}</text></g>' for x, mark, text in entries)
    return f'<g transform="translate({_LEFT},58)">{"".join(found)}</g>'


def _area(loads: Sequence[float], scale: float) -> str:
    """Return the area under the load."""
    each = len(loads) / _COLUMNS
    tops = [max(loads[int(number * each) : int((number + 1) * each)]) for number in range(_COLUMNS)]
    bottom, wide = _TOP + _HEIGHT, _WIDTH / _COLUMNS
    line = " ".join(
        f"{_LEFT + (number + 0.5) * wide:.1f},{bottom - top * scale:.1f}" for number, top in enumerate(tops)
    )
    return f"M{_LEFT},{bottom} L{line} L{_LEFT + _WIDTH},{bottom} Z"


def _steps(replicas: Sequence[int], scale: float) -> str:
    """Return a line that steps up and down with the number of replicas."""
    bottom = _TOP + _HEIGHT
    moves = [f"M{_LEFT},{bottom - replicas[0] * scale:.1f}"]
    for second, (before, after) in enumerate(pairwise(replicas), start=1):
        if before != after:
            moves.append(f"H{_LEFT + _WIDTH * second / len(replicas):.1f}V{bottom - after * scale:.1f}")
    return "".join(moves) + f"H{_LEFT + _WIDTH}"


def _overloads(loads: Sequence[float], outcome: Outcome, title: str, y: float) -> str:
    """Return a strip that shows the overloaded seconds in red. A column is at least one pixel wide."""
    wide = len(loads) / _WIDTH
    bad = {int(second / wide) for second, load in enumerate(loads) if load > outcome.ready[second]}
    marks = "".join(f"M{_LEFT + column},{y}h1v12h-1z" for column in sorted(bad))
    return (
        f'<rect class="strip" x="{_LEFT}" y="{y}" width="{_WIDTH}" height="12"/><path class="overload" d="{marks}"/>'
        f'<text x="{_LEFT + _WIDTH + 10}" y="{y + 12}">{title}</text>'
    )


def _said(curve: Curve, outcomes: dict[str, Outcome]) -> str:
    """Return the picture in words, for people who can't see it."""
    figures = (
        f"{title}: {outcomes[name].hours:.1f} replica hours, {100 * outcomes[name].overloaded:.1f} % overloaded seconds"
        for name, title in (("autoscale", "anyreplica's autoscaler"), ("cpu", "the widespread CPU rule"))
    )
    return f"{curve.title}. {'; '.join(figures)}."


def main() -> None:
    """Write the picture of each curve."""
    for curve in CURVES:
        (FOLDER / f"autoscale-{curve.name}.svg").write_text(picture(curve))


if __name__ == "__main__":
    main()
