"""Tools with and without a required scope, and resources with one."""

from fastmcp.resources import resource
from fastmcp.server.auth import require_scopes
from fastmcp.server.dependencies import get_access_token
from fastmcp.tools import tool


@tool(auth=require_scopes("reports:read"))
def read_report() -> str:
    """Return the caller for whom the report is."""
    token = get_access_token()
    return f"for {token.subject or token.client_id}" if token else "for nobody"


@resource("report://year", auth=require_scopes("reports:read"))
def report_of_the_year() -> str:
    """Return a report."""
    return "report"


@resource("report://day/{number}", auth=require_scopes("reports:read"))
def report_of_a_day(number: int) -> str:
    """Return the report of a day."""
    return f"report {number}"


@tool
def sales_of_the_year() -> int:
    """Return the sales of this year."""
    return 7


@tool
def sales_of_the_day() -> int:
    """Return the sales of this day."""
    return 1
