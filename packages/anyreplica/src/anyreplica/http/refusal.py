"""Refusals: requests that get an error before any component runs, as JSON-RPC errors."""

from collections.abc import Mapping
from typing import Any

from mcp_types import INVALID_REQUEST
from starlette.types import Scope, Send

from anyreplica.http.responses import JSON, error_response, send_response

UNAVAILABLE = -32000
"""The first JSON-RPC code for errors of the server (JSON-RPC 2.0, section 5.1). MCP does not define its meaning."""


class Refused(Exception):
    """A request that gets an error before any component runs.

    Args:
        status: The HTTP status.
        message: The text of the error.
        code: The JSON-RPC code.
        data: The JSON-RPC data of the error.
        identity: The JSON-RPC id of the request. None if the id is unknown.
        headers: Headers of the reply in addition to its type and length.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: int = INVALID_REQUEST,
        data: Any = None,
        identity: int | str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.data = data
        self.identity = identity
        self.headers = headers or {}

    @classmethod
    def retry_later(cls, message: str, *, code: int = UNAVAILABLE, identity: int | str | None = None) -> "Refused":
        """Return a refusal with HTTP status 503 that asks the client to wait for one second."""
        return cls(503, message, code=code, identity=identity, headers={"Retry-After": "1"})


class ClientGone(Exception):
    """The client closed the connection before it got an answer."""


async def send_refusal(scope: Scope, send: Send, refused: Refused) -> None:
    """Send a refusal as a JSON-RPC error."""
    headers = [(name.lower().encode(), value.encode()) for name, value in refused.headers.items()]
    body = error_response(refused.identity, refused.code, refused.message, refused.data)
    await send_response(scope, send, refused.status, (*JSON, *headers), body)
