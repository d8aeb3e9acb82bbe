"""Tools with and without a required scope."""

from fastmcp.server.auth import require_scopes
from fastmcp.server.dependencies import get_access_token
from fastmcp.tools import tool


@tool(auth=require_scopes("reports:read"))
def read_report() -> str:
    """Return the caller for whom the report is."""
    token = get_access_token()
    return f"for {token.subject or token.client_id}" if token else "for nobody"


@tool
def sales_of_the_year() -> int:
    """Return the sales of this year."""
    return 7


@tool
def sales_of_the_day() -> int:
    """Return the sales of this day."""
    return 1
