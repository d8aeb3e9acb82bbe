"""`/version`: what runs here, and which replica answered."""

from collections.abc import Callable, Mapping

from mcp_types.version import KNOWN_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mcp_swarm._version import __version__
from mcp_swarm.auth.caller import CALLER
from mcp_swarm.process.lifecycle import Lifecycle


def version_route(
    name: str, replica: str, lifecycle: Lifecycle, paths: Callable[[], Mapping[str, str]], *, guarded: bool
) -> Route:
    """`GET /version`: open to everybody, so it names no library, and components only to those who may call them.

    `paths` tells the path of each tool, and why; `guarded` is whether callers have to show who they are.
    """

    async def show(request: Request) -> Response:
        told: dict[str, object] = {
            "name": name,
            "version": __version__,
            "hostname": replica,
            "status": lifecycle.state,
            "protocol_versions": KNOWN_PROTOCOL_VERSIONS,
        }
        if not guarded or CALLER in request.scope:
            told["paths"] = paths()
        return JSONResponse(told)

    return Route("/version", show)
