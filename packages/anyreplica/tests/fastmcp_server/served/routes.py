"""Custom routes, of a mounted server, too."""

from fastmcp import FastMCP
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

mcp = FastMCP("routes")


@mcp.custom_route("/webhook/{name}", methods=["POST"])
async def webhook(request: Request) -> Response:
    """Receive a webhook."""
    return JSONResponse({"name": request.path_params["name"], "body": await request.json()})
