"""The HTML report: one self-contained page, for example for a pull request or an incident report."""

from pathlib import Path
from typing import Any

import jinja2

from anyreplica.load.report.charts import charts
from anyreplica.load.report.drawing import HEIGHT, WIDTH, colour
from anyreplica.load.summary import Summary


def render(summary: Summary, figures: dict[str, Any]) -> str:
    """Return the HTML page of a run.

    Args:
        summary: The summary of the run.
        figures: The result of `files.as_json` for the same run.
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
