"""CORS: web pages of other origins that may send requests and read the replies (Fetch standard, section 3.3)."""

from collections.abc import Sequence

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from anyreplica.http.responses import StandardOnly

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
    """Wrap an app in Starlette's CORS middleware. Credentials are off, because this server sets no cookies."""
    return CORSMiddleware(
        StandardOnly(app, b"origin"),  # Starlette's middleware does not change requests without Origin
        allow_origins=origins,
        allow_methods=("GET", "POST", "DELETE"),
        allow_headers=("*",),  # any header: the headers that a client sends depend on its version
        expose_headers=_SEEN,
    )
