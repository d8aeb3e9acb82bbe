"""What is refused before a call, in JSON-RPC's form."""

from collections.abc import Mapping
from typing import Any

from mcp_types import INVALID_REQUEST
from starlette.types import Scope, Send

from mcp_swarm.http.responses import error_response, send_json


class Refused(Exception):
    """A request that is answered with an error before any component sees it.

    Args:
        status: of HTTP; `code` is JSON-RPC's.
        identity: the request's id, None if it was not read as far as that.
        headers: of the reply, besides its type and length.
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


class ClientGone(Exception):
    """The caller closed the connection before it was answered."""


async def send_refusal(scope: Scope, send: Send, refused: Refused) -> None:
    """Answer with a JSON-RPC error."""
    headers = [(name.lower().encode(), value.encode()) for name, value in refused.headers.items()]
    body = error_response(refused.identity, refused.code, refused.message, refused.data)
    await send_json(scope, send, refused.status, body, headers)
