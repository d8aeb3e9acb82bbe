"""Servers that are mounted in each other: with and without a namespace, and with middleware of their own."""

from fastmcp import Context, FastMCP

from tests.fastmcp_server.served.middleware import Stamp

mcp = FastMCP("library", middleware=[Stamp("library")])
shelves = FastMCP("shelves", middleware=[Stamp("shelves")])
desk = FastMCP("desk")
mcp.mount(shelves, namespace="shelves")
mcp.mount(desk)


@mcp.tool
def opening_hours() -> str:
    """Return the opening hours."""
    return "9 to 5"


@shelves.tool
def find(title: str, *, stamped: bool = False) -> str:
    """Return the shelf of a book."""
    return f"{title}: {len(title)}"


@shelves.resource("shelf://{number}")
def shelf(number: int) -> str:
    """Return what is on a shelf."""
    return f"shelf {number}"


@desk.tool
def who_serves(ctx: Context) -> str:
    """Return the name of the server that has this tool."""
    return ctx.fastmcp.name


@desk.prompt
def ask_for(title: str) -> str:
    """Ask for a book."""
    return f"Do you have {title}?"


@desk.resource("desk://rules")
def rules() -> str:
    """Return the rules."""
    return "Be quiet."
