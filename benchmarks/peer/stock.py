"""The echo on FastMCP as it comes: its own app, stateless, with JSON replies.

`python -m benchmarks.peer.stock` serves it on `MCP_PORT`, under uvicorn as the server's replicas run (one process,
uvloop, httptools, no access log of uvicorn's own).
"""

import os

import uvicorn
from fastmcp import FastMCP
from starlette.requests import Request
from starlette.responses import Response

mcp = FastMCP("peer")


@mcp.tool
async def echo(message: str) -> str:
    """Give a message back.

    Args:
        message: Any text.
    """
    return message


@mcp.custom_route("/readyz", methods=["GET"])
async def ready(_: Request) -> Response:
    """Say that it serves."""
    return Response()


def main() -> None:
    """Serve until SIGTERM."""
    uvicorn.run(
        mcp.http_app(path="/mcp", stateless_http=True, json_response=True),
        host="127.0.0.1",
        port=int(os.environ["MCP_PORT"]),
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        timeout_keep_alive=75,
    )


if __name__ == "__main__":
    main()
