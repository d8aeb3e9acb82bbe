"""What a call costs, in the form that all studies have."""

from benchmarks.results import Figure, LoadFigures, Results, ScenarioFigures
from benchmarks.spread import Spread
from benchmarks.study.study import SCHEMA, Column, Findings, Row, Study, Table

_MANY, _ONE = 32, 1

_COST = [
    Column("cpu", "CPU per request", "µs", "less", drawn=True),
    Column("ratio", "of the floor", "×", "less", drawn=True),
    Column("target", "at most", "×"),
    Column("rate", "requests", "/s", "more"),
    Column("p99", "p99", "ms", "less"),
]
_ALONE = [
    Column("cpu", "CPU per request", "µs", "less"),
    Column("ratio", "of the floor", "×", "less"),
    Column("rate", "requests", "/s", "more"),
    Column("p50", "p50", "ms", "less"),
    Column("p99", "p99", "ms", "less"),
]


def study_of(results: Results) -> Study:
    """The same figures as a study."""
    tables = [
        Table("cost", f"{_MANY} requests in flight", _COST, [_row(each, _MANY) for each in results.scenarios]),
        Table("alone", "One request in flight", _ALONE, [_row(each, _ONE) for each in results.scenarios]),
    ]
    if results.process:
        columns = [Column("figure", "measured"), Column("target", "at most")]
        tables.append(Table("process", "The process as a whole", columns, [_figure(each) for each in results.process]))
    sentence, meaning = _words(results)
    return Study(
        schema=SCHEMA,
        name="exchange",
        title="What a call costs",
        claim="A plain tool behind all checks costs little more than the barest ASGI app that gives the same answer.",
        command=results.command,
        began=results.began,
        seconds=results.took,
        machine=results.machine,
        quick=results.quick,
        rounds=results.rounds,
        findings=Findings(tables, sentence, meaning, versions=results.versions, missed=results.missed),
    )


def _row(scenario: ScenarioFigures, connections: int) -> Row:
    load = next((load for load in scenario.loads if load.connections == connections), None)
    figures = _figures(load) if load else {}
    if figures and scenario.target is not None:
        figures["target"] = Spread.of([scenario.target])
    return Row(scenario.name, scenario.title, figures, failure=scenario.failure)


def _figures(load: LoadFigures) -> dict[str, Spread]:
    return {"cpu": load.cpu_us, "ratio": load.ratio, "rate": load.per_second, "p50": load.p50_ms, "p99": load.p99_ms}


def _figure(figure: Figure) -> Row:
    found = {"figure": figure.value} if figure.value else {}
    if figure.target is not None:
        found["target"] = Spread.of([figure.target])
    return Row(figure.name, f"{figure.title}, {figure.unit}", found, failure=figure.failure)


def _words(results: Results) -> tuple[str, str]:
    """One sentence, and what it means."""
    measured = [each for each in results.scenarios if not each.failure]
    ratios = {each.name: each.judged.ratio.median for each in measured if each.judged}
    echoes = [ratios[name] for name in ("echo", "echo-2026") if name in ratios]
    if not echoes:
        return "The echo was not measured.", "The echo was not measured."
    sentence = f"An echo takes {' and '.join(f'{ratio:.2f}' for ratio in echoes)} times the floor's CPU time"
    sentence += " in the two protocol families." if len(echoes) > 1 else "."
    parts = [sentence]
    if "secured" in ratios:
        parts.append(f"A caller's key, its rate and an audit log make it {ratios['secured']:.2f}.")
    if "fastmcp-path" in ratios:
        parts.append(f"The FastMCP path costs {ratios['fastmcp-path']:.0f} times the floor.")
    logged = "write a line of the access log" if results.log_level in ("DEBUG", "INFO") else "log nothing, either"
    parts.append(
        f"The floor parses and writes JSON, checks nothing and logs nothing; for each request the others {logged}."
    )
    return sentence, " ".join(parts)
