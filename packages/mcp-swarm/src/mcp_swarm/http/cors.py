"""Pages of other origins that may read replies (Fetch standard, section 3.3)."""

from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Send

from mcp_swarm.http.whole_response import WHOLE

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


class Cors(CORSMiddleware):
    """Starlette's, for replies in one message as well. Cookies are none of ours, so credentials stay off.

    Args:
        origins: as `https://app.example.com`.
    """

    def __init__(self, app: ASGIApp, origins: Sequence[str]) -> None:
        super().__init__(
            app,
            allow_origins=origins,
            allow_methods=("GET", "POST", "DELETE"),
            allow_headers=("*",),  # as the page asks for: which headers of ours a client sends changes with its version
            expose_headers=_SEEN,
        )

    async def send(self, message: Message, send: Send, request_headers: Headers) -> None:
        """Add to a reply's head what its page's browser looks for."""
        if message["type"] != WHOLE:
            await super().send(message, send, request_headers)
            return

        async def send_whole(start: Message) -> None:
            await send({**start, "type": WHOLE})

        await super().send({**message, "type": "http.response.start"}, send_whole, request_headers)
