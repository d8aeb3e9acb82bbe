"""The echo that every transport serves, where FastMCP serves it by itself."""

from fastmcp import FastMCP

from benchmarks.packs.echo.tools import add, echo


def server() -> FastMCP:
    """The tools of `benchmarks.packs.echo`."""
    return FastMCP("benchmark", tools=[echo, add])
