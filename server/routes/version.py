"""`/version`: what runs here, and which replica answered."""

from mcp_types.version import KNOWN_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from server import __version__
from server.lifecycle import Lifecycle


def version_route(name: str, replica: str, lifecycle: Lifecycle) -> Route:
    """`GET /version`: open to everybody, so it names no component and no library."""

    async def show(_: Request) -> Response:
        return JSONResponse(
            {
                "name": name,
                "version": __version__,
                "hostname": replica,
                "status": lifecycle.state,
                "protocol_versions": KNOWN_PROTOCOL_VERSIONS,
            }
        )

    return Route("/version", show)
