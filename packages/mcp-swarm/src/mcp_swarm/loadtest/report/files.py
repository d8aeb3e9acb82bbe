"""A run as files for programs: the figures as JSON, every request as CSV."""

import csv
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mcp_swarm.loadtest.knee import Knee, Stage
from mcp_swarm.loadtest.samples import Samples
from mcp_swarm.loadtest.summary import Summary

SCHEMA = Path(__file__).with_name("schema.json")
"""What `as_json` gives, as JSON Schema."""

VERSION = 1
"""Of the form; a change that breaks readers gets the next."""


def as_json(summary: Summary, broken: list[str], command: str, began: str, knee: Knee | None = None) -> dict[str, Any]:
    """The figures, with the verdict.

    Args:
        broken: what the thresholds that don't hold say.
        command: what was run.
        began: when, as ISO 8601 in UTC.
        knee: what a search for it found, of which this is the best run.
    """
    return {
        "version": VERSION,
        "command": command,
        "began": began,
        **asdict(summary),
        "failed": summary.failed,
        "generator": {**asdict(summary.generator), "limit": summary.generator.limit},
        "stages": [_stage(stage) for stage in knee.stages] if knee else [],
        "problems": summary.problems,
        "broken_thresholds": broken,
        "passed": not (summary.problems or broken),
    }


def _stage(stage: Stage) -> dict[str, Any]:
    summary = stage.summary
    return {
        "rate": stage.rate,
        "throughput": summary.throughput,
        "p50": summary.latency.p50,
        "p99": summary.latency.p99,
        "failed": summary.failed,
        "broken": stage.broken,
    }


def write_json(file: Path, figures: dict[str, Any]) -> None:
    """Write figures.

    Raises:
        OSError: that can't be done.
    """
    file.write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n")


def write_csv(file: Path, samples: Samples) -> None:
    """Write each request in a line: times in seconds since the start, `error` empty for a success.

    Raises:
        OSError: that can't be done.
    """
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(("begun", "ended", "ms", "error", "replica", "request", "connection"))
        for each in samples:
            times = (f"{each.begun:.6f}", f"{each.ended:.6f}", f"{each.seconds * 1000:.3f}")
            writer.writerow((*times, each.kind, each.replica, each.name, each.connection))
