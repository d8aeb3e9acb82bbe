"""MCP Apps: tools with a user interface."""

from fastmcp import FastMCP
from fastmcp.apps import AppConfig

mcp = FastMCP("apps")


@mcp.tool(app=AppConfig(resource_uri="ui://chart/view.html"))
def chart(values: list[int]) -> dict[str, list[int]]:
    """Draw a chart."""
    return {"values": values}


@mcp.tool(app=AppConfig(resource_uri="ui://chart/view.html", visibility=["app"]))
def more_values() -> list[int]:
    """Return more values to the chart."""
    return [4, 5]


@mcp.resource("ui://chart/view.html", app=AppConfig(prefers_border=True))
def view() -> str:
    """Return the user interface of the chart."""
    return "<html><body>chart</body></html>"
