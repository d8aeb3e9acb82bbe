"""Tools that query sales in a database, which all replicas share.

`DATABASE_URL`, or the secret `database_url`, is the URL of a PostgreSQL database with the tables of `schema.sql`, such
as `postgresql://analytics_reader:password@db:5432/shop?sslmode=verify-full`. `python -m examples.analytics.load`
creates and fills the tables. Use the role of `reader.sql`, which can only read. `DATABASE_POOL_SIZE` (default: 5) is
the maximum number of connections of one replica. The sum for all replicas must be below `max_connections` of the
database; otherwise the database refuses connections.

Without a URL, each replica generates the same sales and stores them in memory with SQLite.
"""

from collections.abc import AsyncIterator
from datetime import date
from typing import Annotated, Any, Literal, Protocol

from anyreplica import lifespan
from fastmcp.exceptions import ToolError
from fastmcp.tools import tool
from pydantic import BaseModel, Field

from examples.analytics._postgres import AnalyticsSettings, Postgres
from examples.analytics._sqlite import Generated


class Database(Protocol):
    """The database that the tools query."""

    async def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a statement; `$1`, `$2`, … in the statement stand for the values."""

    async def close(self) -> None:
        """Close all connections."""


_SETTINGS = AnalyticsSettings.load()
_DATABASE: Database = (
    Postgres(_SETTINGS.database_url.get_secret_value(), _SETTINGS.database_pool_size)
    if _SETTINGS.database_url
    else Generated()
)
_MOST_ROWS = 1000


@lifespan
async def database() -> AsyncIterator[None]:
    """Close the connections when the replica stops; the first query opens the first connection."""
    try:
        yield
    finally:
        await _DATABASE.close()


Since = Annotated[date | None, Field(description='First day, such as "2025-01-31"; null: no first day')]
Until = Annotated[date | None, Field(description='Last day, such as "2025-12-31"; null: no last day')]
# PostgreSQL's type text can't contain NUL.
Region = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f]+$")]
Revenue = Annotated[float, Field(description="Total revenue in euros")]
Sales = Annotated[int, Field(description="Number of sales")]


class RegionSales(BaseModel):
    """The sales of one region."""

    region: str
    sales: Sales
    revenue: Revenue


class SalesByRegion(BaseModel):
    """The sales of each region, the region with the highest revenue first."""

    regions: list[RegionSales]
    complete: bool = Field(description="False: there are more regions than this list contains")


class CustomerSales(BaseModel):
    """The sales to one customer."""

    customer: str
    region: str
    sales: Sales
    revenue: Revenue


class TopCustomers(BaseModel):
    """The customers with the highest revenue, the highest first."""

    customers: list[CustomerSales]


class PeriodSales(BaseModel):
    """The sales of one day, month or year."""

    period: str = Field(description='Period, such as "2025-01-31", "2025-01" or "2025"')
    sales: Sales
    revenue: Revenue


class RevenueTrend(BaseModel):
    """The sales of each period with sales, the earliest period first."""

    periods: list[PeriodSales]
    complete: bool = Field(description="False: there are more periods after the last one in this list")


# Both databases use the same statements: for SQLite $1 is a name, for PostgreSQL a number.
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
"""Number of characters of a date's text that name the period."""


@tool(annotations={"readOnlyHint": True})
async def get_sales_by_region(since: Since = None, until: Until = None) -> SalesByRegion:
    """Get the number of sales and the revenue of each region.

    Raises:
        ToolError: `since` is after `until`, or the database does not answer.
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
    """Get the customers with the highest revenue.

    Args:
        limit: Maximum number of customers.
        region: Only customers of this region; get_sales_by_region lists the regions.

    Raises:
        ToolError: `since` is after `until`, or the database does not answer.
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
    """Get the number of sales and the revenue per day, month or year.

    Args:
        period: Length of a period.
        region: Only sales in this region; get_sales_by_region lists the regions.

    Raises:
        ToolError: `since` is after `until`, or the database does not answer.
    """
    rows = await _DATABASE.rows(_TREND, *_days(since, until), region or "", _DIGITS[period], _MOST_ROWS + 1)
    periods = [PeriodSales(period=name, sales=count, revenue=cents / 100) for name, count, cents in rows]
    return RevenueTrend(periods=periods[:_MOST_ROWS], complete=len(periods) <= _MOST_ROWS)


def _days(since: date | None, until: date | None) -> tuple[date, date]:
    first, last = since or date.min, until or date.max
    if first > last:
        raise ToolError(f"since ({first}) must not be after until ({last})")
    return first, last
