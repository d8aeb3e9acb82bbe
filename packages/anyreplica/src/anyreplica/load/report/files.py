"""Writers of the result files for programs: all figures as JSON, and every request as CSV."""

import csv
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from anyreplica.load.knee import Knee, Stage
from anyreplica.load.latency import Samples
from anyreplica.load.summary import Summary

SCHEMA = Path(__file__).with_name("schema.json")
"""The JSON Schema of the result of `as_json`."""

VERSION = 1
"""Version of the JSON format; a change that breaks readers increases it."""


def as_json(summary: Summary, broken: list[str], command: str, began: str, knee: Knee | None = None) -> dict[str, Any]:
    """Return all figures and the verdict in the form of `SCHEMA`.

    Args:
        summary: The summary of the run; with `knee`, of its best rate, or of its last rate if none was good.
        broken: The broken thresholds, in words.
        command: The command line of the run.
        began: Start of the run, as ISO 8601 in UTC.
        knee: The result of a search for the knee, if there was one.
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
    """Write the figures as JSON.

    Raises:
        OSError: The file can't be written.
    """
    file.write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n")


def write_csv(file: Path, samples: Samples) -> None:
    """Write one line per request; times are in seconds since the start, and `error` is empty for a success.

    Raises:
        OSError: The file can't be written.
    """
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(("begun", "ended", "ms", "error", "replica", "request", "connection"))
        for each in samples:
            times = (f"{each.started:.6f}", f"{each.ended:.6f}", f"{each.seconds * 1000:.3f}")
            writer.writerow((*times, each.kind, each.replica, each.name, each.connection))
