"""An example job that computes a report from a table and reports its progress."""

from typing import Annotated

from pydantic import BaseModel, Field

from anyreplica import Progress, in_thread, job
from tests.sample.jobs._sales import sales, sell

_CHUNK = 10_000


class Region(BaseModel):
    """One region of the report."""

    region: str
    sales: int
    total: float = Field(description="In euros")
    best_month: int = Field(description="1 to 12, by total")


class Report(BaseModel):
    """Sales by region."""

    rows: int
    regions: list[Region]


_QUERY = """
SELECT region, SUM(n), SUM(cents) / 100.0, month, MAX(cents)
FROM (SELECT region, month, COUNT(*) AS n, SUM(cents) AS cents FROM sales GROUP BY region, month)
GROUP BY region ORDER BY region
"""


@job(timeout=300)
async def generate_report(rows: Annotated[int, Field(ge=1, le=5_000_000)], progress: Progress) -> Report:
    """Create a report of the given number of sales: count, total and best month of each region."""
    with sales() as connection:
        for done in range(0, rows, _CHUNK):
            # SQLite blocks, so it runs in a thread. Chunks allow progress reports and cancellation.
            await in_thread(sell, connection, done, min(_CHUNK, rows - done))
            await progress(90 * min(done + _CHUNK, rows) / rows, f"{min(done + _CHUNK, rows)} of {rows} sales read")
        found = await in_thread(lambda: connection.execute(_QUERY).fetchall())
    regions = [Region(region=name, sales=n, total=total, best_month=month) for name, n, total, month, _ in found]
    return Report(rows=rows, regions=regions)
