"""Versions, icons, annotations, tags and other descriptions of components."""

from typing import Annotated, Any

from fastmcp import FastMCP
from mcp_types import Icon, ToolAnnotations
from pydantic import BaseModel, Field

mcp = FastMCP("catalogue")
ICON = Icon(src="https://example.com/tool.png", mime_type="image/png", sizes=["48x48"])


class Price(BaseModel):
    """A price."""

    amount: float
    currency: str = "EUR"


@mcp.tool(version="1")
def quote(item: str) -> Price:
    """Return the price that everything once had."""
    return Price(amount=1, currency="DEM")


@mcp.tool(name="quote", version="2")
def quote_anew(item: Annotated[str, Field(description="What to buy.")]) -> Price:
    """Return a price."""
    return Price(amount=len(item))


@mcp.tool(
    title="A described tool",
    icons=[ICON],
    annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
    tags={"public"},
    meta={"owner": "sales"},
    output_schema={"type": "object", "properties": {"done": {"type": "boolean"}}},
)
def described() -> dict[str, Any]:
    """Do something that is described."""
    return {"done": True}


@mcp.resource("price://list", icons=[ICON], mime_type="application/json", annotations={"readOnlyHint": True})
def prices() -> str:
    """Return all prices."""
    return '{"tea": 3}'


@mcp.prompt(icons=[ICON], tags={"public"})
def haggle(item: str) -> str:
    """Ask for a lower price."""
    return f"What about half the price for {item}?"
