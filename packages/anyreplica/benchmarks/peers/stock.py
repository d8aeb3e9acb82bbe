"""The echo on FastMCP with its own app: stateless, with JSON replies. With the argument `sessions`: with sessions.

`python -m benchmarks.peers.stock` serves it on `MCP_PORT`.
"""

import sys

from fastmcp import FastMCP
from starlette.requests import Request
from starlette.responses import Response

from benchmarks.floor import serve
from benchmarks.packs.asking.tools import ask

mcp = FastMCP("peer", tools=[ask])


@mcp.tool
async def echo(message: str) -> str:
    """Return the message.

    Args:
        message: Any text.
    """
    return message


@mcp.custom_route("/readyz", methods=["GET"])
async def ready(_: Request) -> Response:
    """Answer 200."""
    return Response()


if __name__ == "__main__":
    stateless = "sessions" not in sys.argv
    serve(mcp.http_app(path="/mcp", stateless_http=stateless, json_response=stateless))
