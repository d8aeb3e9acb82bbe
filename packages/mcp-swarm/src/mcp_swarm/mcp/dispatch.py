"""What the SDK's one-request driver asks of a transport, for one request over HTTP."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import anyio
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from starlette.requests import Request as HttpRequest
from starlette.types import Scope

from mcp_swarm.http.json_replies import encode
from mcp_swarm.mcp.message import Notification, Request
from mcp_swarm.mcp.reply import Reply


class Dispatch:
    """The SDK's `DispatchContext` (a structural protocol): notifications ride on the request's own reply.

    A stateless server can't ask its client anything in the middle of a call, in either era: the answer would be a
    request of its own, which another replica may get.
    """

    can_send_request = False

    def __init__(self, request: Request | Notification, scope: Scope, reply: Reply) -> None:
        self.request = request
        self.scope = scope
        self.reply = reply

    @property
    def request_id(self) -> int | str | None:
        """The JSON-RPC id; None of a notification."""
        return self.request.id if isinstance(self.request, Request) else None

    @cached_property
    def http_request(self) -> HttpRequest:
        """The HTTP request, for what asks for its headers."""
        return HttpRequest(self.scope)

    @cached_property
    def transport(self) -> TransportContext:
        """What kind of transport this is."""
        return TransportContext(kind="streamable-http", can_send_request=False, headers=self.http_request.headers)

    @cached_property
    def message_metadata(self) -> ServerMessageMetadata:
        """The HTTP request, where the SDK looks for it."""
        return ServerMessageMetadata(request_context=self.http_request)

    @cached_property
    def cancel_requested(self) -> anyio.Event:
        """Never set: a caller cancels by going away, which cancels the task."""
        return anyio.Event()

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,  # noqa: ARG002
        opts: CallOptions | None = None,  # noqa: ARG002
    ) -> dict[str, Any]:
        """Refuse.

        Raises:
            NoBackChannelError: always.
        """
        raise NoBackChannelError(method)

    async def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,  # noqa: ARG002
    ) -> None:
        """Send a notification ahead of the result, if the caller takes an event stream."""
        if self.reply.may_stream:
            message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
            if params is not None:
                message["params"] = dict(params)
            await self.reply.event(encode(message))

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress, if the caller gave a token for it."""
        meta = (self.request.params or {}).get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        if token is None:
            return
        params = {"progressToken": token, "progress": progress, "total": total, "message": message}
        await self.notify("notifications/progress", {key: value for key, value in params.items() if value is not None})
