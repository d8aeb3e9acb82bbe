"""docs/explanation/benchmarks.md: the text of `book.md` with the tables and machine lines of `benchmarks/figures/`.

A line `{{ table STUDY TABLE }}` stands for a table, a line `{{ machine STUDY }}` for date, machine and versions, and
the line `{{ record instructions }}` for the figures of `benchmarks.instructions`.

python -m benchmarks.book --check
"""

import argparse
import re
import sys
from pathlib import Path

from benchmarks.instructions import record
from benchmarks.process import ROOT
from benchmarks.study import Study, read
from benchmarks.tables import markdown

FIGURES = Path(__file__).parent / "figures"
TEXT = Path(__file__).parent / "book.md"
BOOK = ROOT / "docs" / "explanation" / "benchmarks.md"
STUDIES = (
    "exchange",
    "peers",
    "transports",
    "asgi_servers",
    "session_flood",
    "modes",
    "scaling",
    "generators",
    "jobs",
    "asking",
    "metrics",
    "autoscale",
)
"""All studies, in the order of the book."""

EXIT_STALE = 1
_PLACE = re.compile(r"^\{\{ (table|machine|record) (\w+)(?: (\w+))? \}\}$", re.MULTILINE)


def study(name: str) -> Study:
    """Read the figures of a study."""
    return read((FIGURES / f"{name}.json").read_text())


def book() -> str:
    """Return the page with all figures.

    Raises:
        OSError: The figures of a study are missing.
        KeyError: A study has no such table.
    """

    def fill(place: re.Match[str]) -> str:
        kind, name, table = place.groups()
        if kind == "record":
            return _section(name, record.markdown())
        found = study(name)
        return _machine(found) if kind == "machine" else _section(f"{name}-{table}", markdown(found.table(table)))

    return _PLACE.sub(fill, TEXT.read_text())


def _section(name: str, text: str) -> str:
    """Mark a text as a section, so that a page of the documentation can include it."""
    return f"<!-- --8<-- [start:{name}] -->\n{text}\n<!-- --8<-- [end:{name}] -->"


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _machine(found: Study) -> str:
    rounds = "1 round" if found.rounds == 1 else f"{found.rounds} rounds"
    rough = "; a quick run with rough figures" if found.quick else ""
    versions = "".join(f"; {name} {version}" for name, version in found.versions.items())
    return f"<sub>{found.began[:10]}, {found.seconds / 60:.0f} min, {rounds}{rough}; {found.machine}{versions}.</sub>"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.book",
        description=f"Write {_name(BOOK)}: the text of {_name(TEXT)} with the figures of {_name(FIGURES)}.",
        epilog=f"Exit codes: 0 written, or up to date; {EXIT_STALE} not up to date, with --check. "
        f'make bench ARGS="--all --into {_name(FIGURES)}" measures all figures.',
    )
    parser.add_argument("--check", action="store_true", help="write nothing; check whether the page is up to date")
    given = parser.parse_args(arguments)
    text = book()
    if given.check and not (BOOK.exists() and BOOK.read_text() == text):
        sys.stderr.write(f"{_name(BOOK)} is not up to date; python -m benchmarks.book writes it\n")
        return EXIT_STALE
    if not given.check:
        BOOK.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
