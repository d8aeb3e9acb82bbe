"""Pages of other origins that may read replies (Fetch standard, section 3.3)."""

from collections.abc import Sequence

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from mcp_swarm.http.responses import StandardOnly

_SEEN = (
    "Mcp-Session-Id",
    "RateLimit-Limit",
    "RateLimit-Remaining",
    "RateLimit-Reset",
    "Retry-After",
    "WWW-Authenticate",
    "X-Request-ID",
    "X-Served-By",
)


def cors(app: ASGIApp, origins: Sequence[str]) -> ASGIApp:
    """Starlette's middleware around an app. Credentials stay off, since this server sets no cookies."""
    return CORSMiddleware(
        StandardOnly(app, b"origin"),  # Starlette's middleware passes all other requests on as they are
        allow_origins=origins,
        allow_methods=("GET", "POST", "DELETE"),
        allow_headers=("*",),  # as the page asks for: which headers of ours a client sends changes with its version
        expose_headers=_SEEN,
    )
