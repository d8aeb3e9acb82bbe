"""`/version`: the name and version of the server, and the replica that answers."""

from collections.abc import Callable, Mapping

from mcp_types.version import KNOWN_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from anyreplica._version import __version__
from anyreplica.auth.caller import CALLER
from anyreplica.process.lifecycle import Lifecycle


def version_route(
    name: str, replica: str, lifecycle: Lifecycle, paths: Callable[[], Mapping[str, str]], *, guarded: bool
) -> Route:
    """Return the route `GET /version`.

    Everybody may read the reply, so it names no library. With authentication, only authenticated callers see the path
    of each tool (fast path or FastMCP path).

    Args:
        name: The name of the server.
        replica: The name of the replica.
        lifecycle: The life of the replica.
        paths: A function that returns the path of each tool, with the reason if it is not simply the fast path.
        guarded: Whether callers must authenticate.
    """

    async def show(request: Request) -> Response:
        content: dict[str, object] = {
            "name": name,
            "version": __version__,
            "hostname": replica,
            "status": lifecycle.state,
            "protocol_versions": KNOWN_PROTOCOL_VERSIONS,
        }
        if not guarded or CALLER in request.scope:
            content["paths"] = paths()
        return JSONResponse(content)

    return Route("/version", show)
