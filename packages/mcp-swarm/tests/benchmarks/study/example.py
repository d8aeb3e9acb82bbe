"""A study, for tests."""

from dataclasses import replace

from benchmarks.machine import this_machine
from benchmarks.study.study import (
    SCHEMA,
    Assumption,
    Column,
    Findings,
    Formula,
    Line,
    Model,
    Plot,
    Row,
    Study,
    Table,
    row_of,
)

MODEL = Model(
    [Assumption("agents", "agents", 10_000_000), Assumption("rate", "calls of a replica", 9_000, "/s", measured=True)],
    [
        Formula("replicas", "replicas", "ceil(agents / (rate * 0.5))"),
        Formula("spare", "replicas less one", "replicas - 1 + 0"),
    ],
)

TABLE = Table(
    "calls",
    "Calls of a tool",
    [Column("p50", "p50", "ms", "less", drawn=True), Column("rate", "calls", "/s", "more", drawn=True)],
    [
        row_of("stdio", "stdio, <a process>", {"p50": [19.6, 18, 22], "rate": [51]}),
        row_of("http", "HTTP | TCP", {"p50": [0.214], "rate": [4231, 3900, 5012]}),
        Row("granian", "granian", skipped="granian is not installed: pip install granian"),
        Row("broken", "a broken one", failure="wrong reply: HTTP 500 <b>"),
    ],
    "A note.",
)

STUDY = Study(
    schema=SCHEMA,
    name="example",
    title="An example",
    claim="It shows.",
    command="python -m benchmarks.example --json x.json --rounds 3 --html x.html",
    began="2026-11-22T10:00:00+00:00",
    seconds=61,
    machine=this_machine(),
    quick=False,
    rounds=3,
    findings=Findings(
        tables=[TABLE],
        sentence="HTTP is quick.",
        meaning="HTTP is quick. So use it.",
        plots=[
            Plot("Memory", "s", "MB", [Line("a", [(0.0, 1.0), (5.0, 2.0)]), Line("b", [(0.0, 3.0)]), Line("c", [])])
        ],
        versions={"uvicorn": "0.54"},
        model=MODEL,
        missed=["a target"],
    ),
)

PLAIN = replace(STUDY, findings=replace(STUDY.findings, model=None, plots=[], missed=[]))
