"""A study without a measurement, for tests."""

from benchmarks.machine import this_machine
from benchmarks.study import Column, Row, Study, Table

TABLE = Table(
    "calls",
    "Calls of a tool",
    [
        Column("p50", "p50", "ms"),
        Column("rate", "calls", "/s"),
        Column("target", "at most", "ms", limits="p50"),
    ],
    [
        Row.of("stdio", "stdio, <a process>", {"p50": [19.6, 18, 22], "rate": [51], "target": [19.6]}),
        Row.of("http", "HTTP | TCP", {"p50": [0.214], "rate": [4231, 3900, 5012], "target": [0.2]}),
        Row("granian", "granian", skipped="granian is not installed: pip install granian"),
        Row("broken", "a broken one", failure="wrong reply: HTTP 500 <b>"),
    ],
)

STUDY = Study(
    name="example",
    command="python -m benchmarks.example --json x.json",
    began="2026-11-22T10:00:00+00:00",
    seconds=61,
    machine=this_machine(),
    quick=False,
    rounds=3,
    versions={"uvicorn": "0.54"},
    tables=[TABLE],
)
