"""The asking tool on FastMCP's own stateful server.

`python -m benchmarks.asking.stateful` serves it on `MCP_PORT`.
"""

from fastmcp import FastMCP
from starlette.requests import Request
from starlette.responses import Response

from benchmarks.floor import serve
from benchmarks.packs.asking.tools import ask

mcp = FastMCP("peer", tools=[ask])


@mcp.custom_route("/readyz", methods=["GET"])
async def ready(_: Request) -> Response:
    """Answer 200."""
    return Response()


if __name__ == "__main__":
    serve(mcp.http_app(path="/mcp"))
