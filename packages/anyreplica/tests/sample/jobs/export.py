"""An example job that writes a table as text."""

import csv
import io
import json
from typing import Annotated, Any, Literal

from pydantic import Field

from anyreplica import Progress, in_thread, job
from tests.sample.jobs._sales import sales, sell

_COLUMNS = ("id", "region", "month", "cents")


@job(timeout=120, retention=600)
async def export_data(
    rows: Annotated[int, Field(ge=1, le=10_000)], progress: Progress, form: Literal["csv", "json"] = "csv"
) -> str:
    """Export the given number of sales as CSV or JSON."""
    with sales() as connection:
        await in_thread(sell, connection, 0, rows)
        await progress(50, "read")
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
