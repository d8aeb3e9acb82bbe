"""A run as one HTML page that needs nothing else: for a pull request, or for the report of an incident."""

from pathlib import Path
from typing import Any

import jinja2

from loadtest.report.charts import HEIGHT, WIDTH, charts, colour
from loadtest.summary import Summary


def render(summary: Summary, figures: dict[str, Any]) -> str:
    """The page.

    Args:
        figures: as `files.as_json` gives them.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["ms"] = lambda value: "–" if value is None else f"{value:,.1f} ms"
    environment.filters["count"] = lambda value: f"{value:,}"
    return environment.get_template("page.html").render(
        run=summary,
        figures=figures,
        charts=charts(summary) if summary.requests else [],
        width=WIDTH,
        height=HEIGHT,
        colour=colour,
    )
