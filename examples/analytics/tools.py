"""Sales for agents to ask about, in a database that all replicas share.

`DATABASE_URL`, or the secret `database_url`, is a database of PostgreSQL's with the tables of `schema.sql`
(`python -m examples.analytics.load` makes and fills them), such as
`postgresql://analytics_reader:password@db:5432/shop?sslmode=verify-full`. Let that be the role of `reader.sql`, which
can only read. `DATABASE_POOL_SIZE` (5) is the most connections of one replica; with that of all replicas taken
together below the database's own `max_connections`, none is turned away.

Without a URL, sales are made up, the same ones on each replica, and kept in its memory by SQLite.
"""

from collections.abc import AsyncIterator
from datetime import date
from typing import Annotated, Any, Literal, Protocol

from fastmcp.exceptions import ToolError
from fastmcp.tools import tool
from mcp_swarm import lifespan
from pydantic import BaseModel, Field

from examples.analytics._postgres import AnalyticsSettings, Postgres
from examples.analytics._sqlite import Generated


class Database(Protocol):
    """What the tools ask."""

    async def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """What a statement finds; `$1`, `$2`, … in it stand for the values."""

    async def close(self) -> None:
        """Let go of what it holds."""


_SETTINGS = AnalyticsSettings.load()
_DATABASE: Database = (
    Postgres(_SETTINGS.database_url.get_secret_value(), _SETTINGS.database_pool_size)
    if _SETTINGS.database_url
    else Generated()
)
_MOST_ROWS = 1000


@lifespan
async def database() -> AsyncIterator[None]:
    """Close the connections when the replica stops. The first question opens one."""
    try:
        yield
    finally:
        await _DATABASE.close()


Since = Annotated[date | None, Field(description='First day, as in "2025-01-31"; null: from the first sale on')]
Until = Annotated[date | None, Field(description="Last day; null: to the last sale")]
# PostgreSQL's text holds no NUL.
Region = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f]+$")]
Revenue = Annotated[float, Field(description="In euros")]


class RegionSales(BaseModel):
    """A region's sales."""

    region: str
    sales: int
    revenue: Revenue


class SalesByRegion(BaseModel):
    """Sales of each region, the one of highest revenue first."""

    regions: list[RegionSales]
    complete: bool = Field(description="False: there are more")


class CustomerSales(BaseModel):
    """What one customer bought."""

    customer: str
    region: str
    sales: int
    revenue: Revenue


class TopCustomers(BaseModel):
    """The customers of highest revenue, the highest first."""

    customers: list[CustomerSales]


class PeriodSales(BaseModel):
    """Sales of a day, month or year."""

    period: str = Field(description='As in "2025-01-31", "2025-01" or "2025"')
    sales: int
    revenue: Revenue


class RevenueTrend(BaseModel):
    """Sales of each period that has any, in order of time."""

    periods: list[PeriodSales]
    complete: bool = Field(description="False: there are more, after these")


# One text for both databases: SQLite takes $1 for a name, PostgreSQL for a number.
_BY_REGION = """
SELECT region, COUNT(*), CAST(SUM(cents) AS bigint)
FROM sales JOIN customers ON customers.id = customer_id
WHERE sold_on BETWEEN $1 AND $2
GROUP BY region ORDER BY 3 DESC, region LIMIT $3
"""
_TOP = """
SELECT name, region, COUNT(*), CAST(SUM(cents) AS bigint)
FROM sales JOIN customers ON customers.id = customer_id
WHERE sold_on BETWEEN $1 AND $2 AND ($3 = '' OR region = $3)
GROUP BY customers.id, name, region ORDER BY 4 DESC, customers.id LIMIT $4
"""
_TREND = """
SELECT substr(CAST(sold_on AS text), 1, $4), COUNT(*), CAST(SUM(cents) AS bigint)
FROM sales JOIN customers ON customers.id = customer_id
WHERE sold_on BETWEEN $1 AND $2 AND ($3 = '' OR region = $3)
GROUP BY 1 ORDER BY 1 LIMIT $5
"""
_DIGITS = {"day": 10, "month": 7, "year": 4}
"""How much of a day's text names its period."""


@tool(annotations={"readOnlyHint": True})
async def get_sales_by_region(since: Since = None, until: Until = None) -> SalesByRegion:
    """Count the sales of each region, and sum up what they brought in.

    Raises:
        ToolError: the days are in the wrong order, or the database gives no answer.
    """
    rows = await _DATABASE.rows(_BY_REGION, *_days(since, until), _MOST_ROWS + 1)
    regions = [RegionSales(region=name, sales=count, revenue=cents / 100) for name, count, cents in rows]
    return SalesByRegion(regions=regions[:_MOST_ROWS], complete=len(regions) <= _MOST_ROWS)


@tool(annotations={"readOnlyHint": True})
async def get_top_customers(
    limit: Annotated[int, Field(ge=1, le=100)] = 10,
    region: Region | None = None,
    since: Since = None,
    until: Until = None,
) -> TopCustomers:
    """Find the customers that brought in the most.

    Args:
        limit: How many.
        region: Only those of this region, as get_sales_by_region names it.

    Raises:
        ToolError: the days are in the wrong order, or the database gives no answer.
    """
    rows = await _DATABASE.rows(_TOP, *_days(since, until), region or "", limit)
    return TopCustomers(
        customers=[
            CustomerSales(customer=name, region=home, sales=count, revenue=cents / 100)
            for name, home, count, cents in rows
        ]
    )


@tool(annotations={"readOnlyHint": True})
async def get_revenue_trend(
    period: Literal["day", "month", "year"] = "month",
    region: Region | None = None,
    since: Since = None,
    until: Until = None,
) -> RevenueTrend:
    """Sum up sales by day, month or year, to see how they develop.

    Args:
        period: What to sum up by.
        region: Only sales in this region, as get_sales_by_region names it.

    Raises:
        ToolError: the days are in the wrong order, or the database gives no answer.
    """
    rows = await _DATABASE.rows(_TREND, *_days(since, until), region or "", _DIGITS[period], _MOST_ROWS + 1)
    periods = [PeriodSales(period=name, sales=count, revenue=cents / 100) for name, count, cents in rows]
    return RevenueTrend(periods=periods[:_MOST_ROWS], complete=len(periods) <= _MOST_ROWS)


def _days(since: date | None, until: date | None) -> tuple[date, date]:
    first, last = since or date.min, until or date.max
    if first > last:
        raise ToolError(f"since ({first}) must not be after until ({last})")
    return first, last
