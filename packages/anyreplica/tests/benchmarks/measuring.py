"""Short runs of studies, as a person starts them."""

import sys

from benchmarks.study import Study, Table, read
from conftest import run


def measured(name: str, *arguments: str, code: int = 0, **settings: str) -> Study:
    """Run a study with `--quick --json -`, check its exit code, and return the study that stdout contains."""
    done = run(sys.executable, "-m", f"benchmarks.{name}", "--quick", *arguments, "--json", "-", **settings)
    assert done.returncode == code, done.stdout + done.stderr
    if not code:
        assert done.stderr == ""
    return read(done.stdout)


def medians(table: Table, row: str) -> dict[str, float]:
    """Return the medians of a row by the column's name, after a check of the spreads."""
    (found,) = (each for each in table.rows if each.name == row)
    assert not found.failure
    assert all(spread.min <= spread.median <= spread.max for spread in found.figures.values())
    return {name: spread.median for name, spread in found.figures.items()}
