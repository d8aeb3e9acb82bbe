"""The echo on FastMCP with its own app: stateless, with JSON replies. With the argument `sessions`: with sessions.

`python -m benchmarks.peers.stock` serves it on `MCP_PORT`. With `REPLICA_NAME`, each reply has the name as
`X-Served-By`.
"""

import os
import sys
from typing import Any

from fastmcp import FastMCP
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from benchmarks.floor import serve
from benchmarks.packs.asking.tools import ask
from benchmarks.packs.slow.tools import very_slow

mcp = FastMCP("peer", tools=[ask, very_slow])


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


def named(app: ASGIApp, replica: str) -> ASGIApp:
    """Return an app that adds the name of the replica to each reply."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_named(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-served-by", replica.encode())]
            await send(message)

        await app(scope, receive, send_named)

    return answer


if __name__ == "__main__":
    stateless = "sessions" not in sys.argv
    app: ASGIApp = mcp.http_app(path="/mcp", stateless_http=stateless, json_response=stateless)
    serve(named(app, os.environ["REPLICA_NAME"]) if "REPLICA_NAME" in os.environ else app)
