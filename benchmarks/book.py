"""BENCHMARKS.md, and README's figures, written from `benchmarks/figures/`: a table for each claim, and a sentence.

In README stands `<!-- sentence of exchange -->…<!-- end -->` or `<!-- table of modes -->…<!-- end -->`.

python -m benchmarks.book --check
"""

import argparse
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from pydantic import TypeAdapter

from benchmarks.cost_study import study_of
from benchmarks.process import ROOT
from benchmarks.results import Results
from benchmarks.study.study import Study, read
from benchmarks.study.words import cells, heading

FIGURES = Path(__file__).parent / "figures"
BOOK = ROOT / "BENCHMARKS.md"
README = ROOT / "README.md"
ORDER = (
    "exchange",
    "peers",
    "transports",
    "asgi_servers",
    "session_flood",
    "modes",
    "scaling",
    "generators",
    "jobs",
    "metrics",
)
"""Of the chapters."""

EXIT_STALE = 1
EXIT_MISSING = 2
_MAKE = "python -m benchmarks.suite --all --into benchmarks/figures"

_PREFACE = """\
# Benchmarks

`make bench ARGS=--quick` runs the studies behind the README's claims in three minutes, roughly; without `--quick` \
they take about half an hour, and `--all` runs what else is here. This page is made of `benchmarks/figures/*.json` by \
`python -m benchmarks.book`, where `python` is `.venv/bin/python`, as in all that follows. Each \
command below takes `--html FILE` for a page with plots and all tables, \
`--json FILE`, and `--help`. A figure is the median of rounds in turns, with the least and the most in parentheses. \
A shared machine's speed changes by half within seconds: compare figures of one table, not of two. CPU time is user \
and system time of the server's process.
"""

_FILES = re.compile(r" --(json|html) \S+")


_PLACE = re.compile(r"(<!-- (sentence|table) of (\w+) -->).*?(<!-- end -->)", re.DOTALL)


def book(studies: Mapping[str, Study]) -> str:
    """The page, of all the figures there are."""
    return "\n".join([_PREFACE, *(_chapter(studies[name]) for name in ORDER if name in studies)])


def filled(text: str, studies: Mapping[str, Study]) -> str:
    """A text whose places have their figures.

    Raises:
        KeyError: there are none of a study that it names.
    """

    def fill(place: re.Match[str]) -> str:
        begin, kind, name, end = place.groups()
        study = studies[name]
        figures = study.findings.sentence if kind == "sentence" else f"\n\n{_table(study)}\n\n"
        return f"{begin}{figures}{end}"

    return _PLACE.sub(fill, text)


def _study(path: Path) -> Study:
    text = path.read_text()
    return study_of(TypeAdapter(Results).validate_json(text)) if path.stem == "exchange" else read(text)


def _chapter(study: Study) -> str:
    table = study.findings.tables[0]
    rounds = "1 round" if study.rounds == 1 else f"{study.rounds} rounds"
    versions = "".join(f"; {name} {version}" for name, version in study.findings.versions.items())
    rough = "; a quick run, rough" if study.quick else ""
    lines = [
        f"## {study.title}",
        study.claim,
        f"```bash\n{_FILES.sub('', study.command)}\n```",
        _table(study),
        study.findings.sentence,
        *([table.note] if table.note else []),
        *([f"Missed: {'; '.join(study.findings.missed)}."] if study.findings.missed else []),
        f"<sub>{study.began[:10]}, {study.seconds / 60:.0f} min, {rounds}{rough}; {study.machine}{versions}.</sub>",
    ]
    return "\n\n".join(lines) + "\n"


def _table(study: Study) -> str:
    table = study.findings.tables[0]
    head = [_row(["", *map(heading, table.columns)]), _row(["---", *["---:"] * len(table.columns)])]
    return "\n".join([*head, *(_row(cells(row, table.columns)) for row in table.rows)])


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(' '.join(cell.replace('|', '/').split()) for cell in cells)} |"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.book",
        description="Write BENCHMARKS.md, and the figures in README.md, from benchmarks/figures/*.json.",
        epilog=f"{_MAKE} measures what they hold. Exit codes: 0 written, or what there is is right; {EXIT_STALE} it "
        f"isn't, with --check; {EXIT_MISSING} wrong arguments, or README's figures are missing.",
    )
    parser.add_argument("--check", action="store_true", help="write nothing; say whether the page is of these figures")
    given = parser.parse_args(arguments)
    studies = {path.stem: _study(path) for path in sorted(FIGURES.glob("*.json"))}
    try:
        pages = {BOOK: book(studies), README: filled(README.read_text(), studies)}
    except KeyError as error:
        sys.stderr.write(f"README.md wants figures of {error.args[0]}, which are missing; {_MAKE} measures all\n")
        return EXIT_MISSING
    stale = [path for path, text in pages.items() if not path.exists() or path.read_text() != text]
    if given.check and stale:
        names = " and ".join(path.name for path in stale)
        sys.stderr.write(f"Not of benchmarks/figures: {names}; python -m benchmarks.book writes them anew\n")
        return EXIT_STALE
    for path in stale:
        path.write_text(pages[path])
    return 0


if __name__ == "__main__":
    sys.exit(main())
