"""A server from an OpenAPI description. The API itself answers in this process."""

from typing import Any

import httpx2
from fastmcp import FastMCP
from fastmcp.server.providers.openapi import MCPType, RouteMap
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route


async def _forecast(request: Request) -> JSONResponse:
    return JSONResponse({"city": request.path_params["city"], "days": int(request.query_params["days"])})


async def _report(request: Request) -> JSONResponse:
    return JSONResponse({"received": (await request.json())["text"]})


async def _cities(_: Request) -> JSONResponse:
    return JSONResponse(["Bonn", "Rome"])


_TEXT = {"type": "string"}
_JSON = {"200": {"description": "Done.", "content": {"application/json": {"schema": {}}}}}
SPEC: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Weather", "version": "1"},
    "paths": {
        "/forecast/{city}": {
            "get": {
                "operationId": "forecast",
                "parameters": [
                    {"name": "city", "in": "path", "required": True, "schema": _TEXT},
                    {"name": "days", "in": "query", "required": True, "schema": {"type": "integer"}},
                ],
                "responses": _JSON,
            }
        },
        "/report": {
            "post": {
                "operationId": "report",
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {
                            "schema": {"type": "object", "required": ["text"], "properties": {"text": _TEXT}}
                        }
                    },
                },
                "responses": _JSON,
            }
        },
        "/cities": {"get": {"operationId": "cities", "responses": _JSON}},
    },
}
_API = Starlette(
    routes=[
        Route("/forecast/{city}", _forecast),
        Route("/report", _report, methods=["POST"]),
        Route("/cities", _cities),
    ]
)

mcp = FastMCP.from_openapi(
    SPEC,
    client=httpx2.AsyncClient(transport=httpx2.ASGITransport(_API), base_url="http://weather.example"),
    name="weather",
    route_maps=[RouteMap(pattern=r"^/cities$", mcp_type=MCPType.RESOURCE)],
)
