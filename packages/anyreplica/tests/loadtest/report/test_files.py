"""Tests of a run's JSON and CSV files."""

import json
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest

from anyreplica.load.latency import Samples
from anyreplica.load.report.output import SCHEMA, as_json, write_csv, write_json
from anyreplica.load.summary import Summary
from tests.loadtest.test_summary import SUMMARY, samples, summary


@pytest.mark.parametrize("run", [SUMMARY, summary(Samples())])
def test_the_figures_follow_the_published_schema(run: Summary, tmp_path: Path) -> None:
    """The figures of a run follow the published schema, also those of an empty run, and the schema is valid."""
    schema = json.loads(SCHEMA.read_text())
    validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
    validator.check_schema(schema)
    assert all(each.get("description") for each in schema["properties"].values())
    write_json(tmp_path / "run.json", as_json(run, ["p99<1ms: p99 is 30.0 ms"], "command", "2026-11-21T12:00:00+00:00"))
    figures = json.loads((tmp_path / "run.json").read_text())
    validator.validate(figures)
    assert figures["passed"] is False
    assert figures["failed"] == run.failed


def test_every_request_is_a_line(tmp_path: Path) -> None:
    """The CSV file has one line per request, with the measured times."""
    write_csv(tmp_path / "run.csv", samples())
    first, *lines = (tmp_path / "run.csv").read_text().splitlines()
    assert first == "begun,ended,ms,error,replica,request,connection"
    assert len(lines) == 10
    assert lines[0] == "0.000000,0.010000,10.000,,a,tools/call echo,1"
    assert [line.split(",")[3] for line in lines[-2:]] == ["HTTP 503", "timeout"]
