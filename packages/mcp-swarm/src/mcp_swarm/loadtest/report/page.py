"""A run as one HTML page that needs nothing else: for a pull request, or for the report of an incident."""

from pathlib import Path
from typing import Any

import jinja2

from mcp_swarm.loadtest.report.charts import charts
from mcp_swarm.loadtest.report.drawing import HEIGHT, WIDTH, colour
from mcp_swarm.loadtest.summary import Summary


def render(summary: Summary, figures: dict[str, Any]) -> str:
    """The page.

    Args:
        figures: as `files.as_json` gives them.
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
    """The templates in these folders, then the load test's: `frame.html` and `chart.html` are for every page."""
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
