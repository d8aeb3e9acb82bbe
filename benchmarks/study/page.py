"""A study as one HTML page that needs nothing else."""

import json
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

from mcp_swarm.loadtest.report.drawing import HEIGHT, WIDTH
from mcp_swarm.loadtest.report.page import templates

from benchmarks.study.model import evaluate
from benchmarks.study.plots import bars, lines
from benchmarks.study.study import Study
from benchmarks.study.words import cells, heading, number

_HERE = Path(__file__).parent
_SCRIPT = (_HERE / "model.js").read_text()
_ALLOWED = f"sha256-{b64encode(sha256(_SCRIPT.encode()).digest()).decode()}"


def render(study: Study) -> str:
    """The page."""
    model = study.findings.model
    formulas = [{"name": formula.name, "text": formula.text} for formula in model.formulas] if model else []
    return (
        templates(_HERE)
        .get_template("page.html")
        .render(
            study=study,
            findings=study.findings,
            charts=[lines(plot) for plot in study.findings.plots],
            bars=bars,
            cells=cells,
            heading=heading,
            number=number,
            results=evaluate(model) if model else {},
            formulas=json.dumps(formulas),
            script=_SCRIPT,
            allowed=_ALLOWED,
            width=WIDTH,
            height=HEIGHT,
        )
    )
