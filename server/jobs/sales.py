"""Two sample jobs: one exports a table as text, the other computes a report. Replace the table with your database."""

import csv
import io
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Annotated, Any, Literal

from anyreplica import Progress, in_thread, job
from pydantic import BaseModel, Field

_CHUNK = 10_000
_COLUMNS = ("id", "region", "month", "cents")
_REGIONS = ("north", "east", "south", "west")


@contextmanager
def _sales() -> Iterator[sqlite3.Connection]:
    """Open an in-memory database with an empty table `sales (id, region, month, cents)`."""
    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as connection:
        connection.execute("CREATE TABLE sales (id INTEGER PRIMARY KEY, region TEXT, month INTEGER, cents INTEGER)")
        yield connection


def _sell(connection: sqlite3.Connection, first: int, count: int) -> None:
    """Insert `count` sales, starting with the id `first`; the same id always gives the same sale."""
    rows = ((i, _REGIONS[i % 4], i % 12 + 1, (i * 7919) % 10_000) for i in range(first, first + count))
    connection.executemany("INSERT INTO sales VALUES (?, ?, ?, ?)", rows)


@job(timeout=120, retention=600)
async def export_data(
    rows: Annotated[int, Field(ge=1, le=10_000)], progress: Progress, form: Literal["csv", "json"] = "csv"
) -> str:
    """Export a number of sales as CSV or JSON."""
    with _sales() as connection:
        await in_thread(_sell, connection, 0, rows)
        await progress(50, "sales read")
        found = await in_thread(lambda: connection.execute("SELECT * FROM sales ORDER BY id").fetchall())
    return await in_thread(_written, found, form)


def _written(rows: list[tuple[Any, ...]], form: str) -> str:
    if form == "json":
        return json.dumps([dict(zip(_COLUMNS, row, strict=True)) for row in rows])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows(rows)
    return text.getvalue()


class Region(BaseModel):
    """The figures of one region."""

    region: str
    sales: int = Field(description="Number of sales")
    total: float = Field(description="Total of the sales, in euros")
    best_month: int = Field(description="Month with the highest total, 1 to 12")


class Report(BaseModel):
    """Sales by region."""

    rows: int = Field(description="Number of sales in the report")
    regions: list[Region]


_QUERY = """
SELECT region, SUM(n), SUM(cents) / 100.0, month, MAX(cents)
FROM (SELECT region, month, COUNT(*) AS n, SUM(cents) AS cents FROM sales GROUP BY region, month)
GROUP BY region ORDER BY region
"""


@job(timeout=300)
async def generate_report(rows: Annotated[int, Field(ge=1, le=5_000_000)], progress: Progress) -> Report:
    """Create a report about a number of sales: count, total and best month of each region."""
    with _sales() as connection:
        for done in range(0, rows, _CHUNK):
            # A thread, because SQLite blocks. Chunks, so that the job can report progress and react to a cancellation.
            await in_thread(_sell, connection, done, min(_CHUNK, rows - done))
            await progress(90 * min(done + _CHUNK, rows) / rows, f"{min(done + _CHUNK, rows)} of {rows} sales read")
        found = await in_thread(lambda: connection.execute(_QUERY).fetchall())
    regions = [Region(region=name, sales=n, total=total, best_month=month) for name, n, total, month, _ in found]
    return Report(rows=rows, regions=regions)
