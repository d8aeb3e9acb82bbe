"""The record of the figures: `record.json` has an entry for each time at which they were accepted, with the reason."""

import json
import platform
import sys
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pydantic import TypeAdapter

FILE = Path(__file__).with_name("record.json")
MOST_GROWTH = 0.02
"""Share by which a figure may be larger than the recorded one."""


@dataclass(frozen=True)
class Entry:
    """Accepted figures."""

    why: str
    """Reason why the figures were accepted."""
    calls: dict[str, int]
    """Instructions per call, by the name of the scenario."""
    date: str = field(default_factory=lambda: datetime.now(UTC).date().isoformat())
    python: str = f"{sys.version} {platform.machine()}"
    """Version, compiler and machine of the Python that ran. Figures of different Pythons cannot be compared."""


_ENTRIES = TypeAdapter(list[Entry])


def read() -> list[Entry]:
    """Return all entries, the newest one last.

    Raises:
        ValueError: the file is damaged.
    """
    return _ENTRIES.validate_json(FILE.read_text()) if FILE.exists() else []


def recorded() -> dict[str, int]:
    """Return the newest figure of each scenario. Empty: this Python is not the one of the newest entry."""
    entries = read()
    if not entries or entries[-1].python != Entry.python:
        return {}
    return {name: count for entry in entries if entry.python == Entry.python for name, count in entry.calls.items()}


def add(why: str, calls: dict[str, int]) -> None:
    """Append an entry."""
    entries = [*read(), Entry(why, calls)]
    FILE.write_text(json.dumps([asdict(entry) for entry in entries], indent=1, ensure_ascii=False) + "\n")


def markdown() -> str:
    """Return all entries as a table in Markdown."""
    entries = read()
    names = list(dict.fromkeys(name for entry in entries for name in entry.calls))
    lines = [["date", "why", *names], ["---", "---", *["---:"] * len(names)]]
    for entry in entries:
        counts = [f"{entry.calls[name]:,}" if name in entry.calls else "–" for name in names]
        lines += [[entry.date, entry.why, *counts]]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)
