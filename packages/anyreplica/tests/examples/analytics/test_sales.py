"""Tests of the sales tools: both databases give the same answers, and no argument reads other data."""

from collections import defaultdict
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import pytest
from fastmcp.exceptions import ToolError
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from conftest import StartServer, generated
from examples.analytics import _generated
from tests.calls import call, legacy, text
from tests.examples.analytics.conftest import Analytics
from tests.examples.analytics.postgres import PostgresServer

pytestmark = [pytest.mark.servers, pytest.mark.slow]

CUSTOMERS = {number: (name, region) for number, name, region in _generated.customers()}
SALES = list(_generated.sales())
DAYS = st.dates(date(2023, 12, 1), date(2026, 1, 31)) | st.sampled_from([date.min, date.max])
SPANS = st.tuples(DAYS, DAYS).map(sorted) | st.just([None, None])
REGIONS = st.sampled_from(["north", "east", "south", "west", "nowhere"])


def sums(key: Callable[[int, date], Any], span: list[date | None], region: str = "") -> dict[Any, Any]:
    """Return the number of sales and the sum in euros for each key."""
    since, until = span
    found: dict[Any, list[int]] = defaultdict(list)
    for _, customer, day, cents in SALES:
        if (since or day) <= day <= (until or day) and region in ("", CUSTOMERS[customer][1]):
            found[key(customer, day)].append(cents)
    return {key: (len(cents), sum(cents) / 100) for key, cents in found.items()}


@generated(30)
@given(span=SPANS)
def test_sales_by_region(analytics: Analytics, span: list[date | None]) -> None:
    """Sales by region count all sales of the period, including the first and the last day."""
    said = analytics.ask("get_sales_by_region", since=span[0], until=span[1])
    assert {each.region: (each.sales, each.revenue) for each in said.regions} == sums(
        lambda customer, _: CUSTOMERS[customer][1], span
    )
    assert said.regions == sorted(said.regions, key=lambda each: -each.revenue)
    assert said.complete


@generated(30)
@given(span=SPANS, region=REGIONS | st.none(), limit=st.integers(1, 100))
def test_top_customers(analytics: Analytics, span: list[date | None], region: str | None, limit: int) -> None:
    """Top customers are those with the highest revenue; equal ones have the same order on both databases."""
    said = analytics.ask("get_top_customers", limit=limit, region=region, since=span[0], until=span[1])
    every = sums(lambda customer, _: customer, span, region or "")
    best = sorted(every, key=lambda number: (-every[number][1], number))[:limit]
    assert [(each.customer, each.region, each.sales, each.revenue) for each in said.customers] == [
        (*CUSTOMERS[number], *every[number]) for number in best
    ]


@generated(30)
@given(span=SPANS, region=REGIONS | st.none(), period=st.sampled_from([("day", 10), ("month", 7), ("year", 4)]))
def test_revenue_trend(
    analytics: Analytics, span: list[date | None], region: str | None, period: tuple[str, int]
) -> None:
    """The revenue trend has one entry per day, month or year."""
    said = analytics.ask("get_revenue_trend", period=period[0], region=region, since=span[0], until=span[1])
    every = sums(lambda _, day: day.isoformat()[: period[1]], span, region or "")
    assert [(each.period, each.sales, each.revenue) for each in said.periods] == [
        (key, *every[key]) for key in sorted(every)
    ]
    assert said.complete


def test_what_is_no_complete_result(analytics: Analytics, monkeypatch: pytest.MonkeyPatch) -> None:
    """A result that is cut says so, and a period that ends before it begins is an error."""
    monkeypatch.setattr(analytics.module, "_MOST_ROWS", 2)
    by_region, trend = analytics.ask("get_sales_by_region"), analytics.ask("get_revenue_trend")
    assert (len(by_region.regions), by_region.complete) == (2, False)
    assert ([each.period for each in trend.periods], trend.complete) == (["2024-01", "2024-02"], False)
    for tool in ("get_sales_by_region", "get_top_customers", "get_revenue_trend"):
        with pytest.raises(ToolError, match=r"since \(2025-01-02\) must not be after until \(2025-01-01\)"):
            analytics.ask(tool, since="2025-01-02", until="2025-01-01")


PIECES = ["'", '"', ";", "--", "/*", "\\", "$1", "$$", "?", ":1", "%", "_", "\0", "\n", "\udcff", "\U0001f600", "E'"]
PIECES += ["||"]
PIECES += [" OR ", "1=1", "DROP TABLE sales", "north", "NULL", "UNION SELECT", "(SELECT pg_sleep(60))", "x'"]
HOSTILE = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=8).map("".join)


@generated(300)
@given(region=HOSTILE)
@example(region="north' OR '1'='1")
@example(region="'; DROP TABLE sales; --")
@example(region="north\0")
def test_a_region_is_nothing_but_a_name(analytics: Analytics, region: str) -> None:
    """A region is only compared with names: an unknown region has no sales, and an invalid one is refused."""
    for tool, field in (("get_top_customers", "customers"), ("get_revenue_trend", "periods")):
        try:
            said = getattr(analytics.ask(tool, region=region), field)
        except ValidationError as error:
            (only,) = error.errors()
            assert only["loc"] == ("region",)
        else:
            assert bool(said) == (region in ("north", "east", "south", "west"))


def test_nothing_is_written(analytics: Analytics) -> None:
    """No statement can write, and the data stay unchanged."""
    for statement in (
        "DELETE FROM sales",
        "UPDATE sales SET cents = 0",
        "DROP TABLE sales",
        "CREATE TABLE mine (id integer)",
        "CREATE TEMP TABLE mine (id integer)",
        "INSERT INTO customers VALUES (1000, 'a', 'b')",
    ):
        with pytest.raises(Exception, match=r"read-?only|permission denied|must be owner"):
            analytics.rows(statement)
    assert analytics.rows("SELECT COUNT(*) FROM sales") == [(len(SALES),)]


WRONG: list[tuple[str, str, list[Any]]] = [
    ("get_revenue_trend", "period", ["month' OR '1'='1", "week"]),
    ("get_revenue_trend", "region", ["\0", "private\x1f", ["private"]]),
    ("get_sales_by_region", "since", ["2025-02-30", "2025-01-01'; DROP TABLE sales; --"]),
    ("get_sales_by_region", "until", ["infinity", "99999-01-01"]),
    ("get_top_customers", "limit", ["1; DROP TABLE sales", 0, 10**30]),
    ("get_top_customers", "region", [""]),
    ("get_top_customers", "offset", [1]),
]


@pytest.mark.parametrize("url", ["", pytest.param("postgres", marks=pytest.mark.needs("postgres"))])
def test_a_replica_serves_the_pack(request: pytest.FixtureRequest, start_server: StartServer, url: str) -> None:
    """A replica returns structured sales or tool errors, and its log has neither password nor arguments."""
    if url:
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.url()
    replica = start_server(MCP_COMPONENTS="examples.analytics", DATABASE_URL=url, LOG_LEVEL="DEBUG")
    tools = {each["name"]: each for each in legacy(replica.url, "tools/list").json()["result"]["tools"]}
    assert tools.keys() == {"get_sales_by_region", "get_top_customers", "get_revenue_trend"}
    assert tools["get_revenue_trend"]["outputSchema"]["required"] == ["periods", "complete"]
    assert all(each["annotations"]["readOnlyHint"] for each in tools.values())

    asked = {"period": "year", "region": "west", "since": "2025-01-01"}
    trend = call(replica.url, "get_revenue_trend", asked)["structuredContent"]
    ((year, (sales, revenue)),) = sums(lambda _, day: str(day.year), [date(2025, 1, 1), None], "west").items()
    assert trend == {"periods": [{"period": year, "sales": sales, "revenue": revenue}], "complete": True}
    refused = [(tool, {name: value}) for tool, name, values in WRONG for value in values]
    refused.append(("get_sales_by_region", {"since": "2025-01-02", "until": "2025-01-01"}))
    for tool, wrong in refused:
        reply = call(replica.url, tool, wrong)
        assert reply["isError"], (tool, wrong)
        assert "Error calling tool" not in text(reply), (tool, wrong)
    for hostile in ("north' OR '1'='1", "'; DROP TABLE sales; --", "$1", "private"):
        assert call(replica.url, "get_top_customers", {"region": hostile})["structuredContent"] == {"customers": []}
    count = sum(each["sales"] for each in call(replica.url, "get_sales_by_region")["structuredContent"]["regions"])
    assert count == len(SALES)
    replica.stop()
    for hidden in ("hunter2", "private", "Traceback"):
        assert hidden not in replica.output


def test_the_sales_fill_two_years() -> None:
    """The generated sales cover each day of two years and each customer."""
    days = {day for _, _, day, _ in SALES}
    assert days == {date(2024, 1, 1) + timedelta(number) for number in range(731)}
    assert {customer for _, customer, _, _ in SALES} == CUSTOMERS.keys()
