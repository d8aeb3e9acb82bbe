"""The transport interface that the SDK's runner needs, for one message over HTTP."""

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

from mcp_swarm.http.responses import encode
from mcp_swarm.mcp.call import Call
from mcp_swarm.mcp.message import Notification, Request


class Dispatch:
    """The SDK's `DispatchContext` (a structural type). It sends notifications in the reply to the request.

    A stateless server cannot send a request to its client during a call, in either protocol family: the client's
    response would be a new HTTP request, and another replica may get it. `call` is None if the message is a
    notification, because a notification has no reply.
    """

    transport = TransportContext(kind="streamable-http", can_send_request=False)
    can_send_request = False

    def __init__(self, message: Request | Notification, scope: Scope, call: Call | None = None) -> None:
        self.message = message
        self.call = call
        self.request_id = message.id
        self.http_request = HttpRequest(scope)
        self.message_metadata = ServerMessageMetadata(request_context=self.http_request)

    @cached_property
    def cancel_requested(self) -> anyio.Event:
        """An event that is never set: a client cancels a call by closing the connection, and this cancels the task."""
        return anyio.Event()

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,  # noqa: ARG002
        opts: CallOptions | None = None,  # noqa: ARG002
    ) -> dict[str, Any]:
        """Raise `NoBackChannelError`, because the server cannot send requests to the client."""
        raise NoBackChannelError(method)

    async def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,  # noqa: ARG002
    ) -> None:
        """Send a notification before the result, if the client accepts an event stream."""
        if self.call is not None and self.call.may_stream:
            message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
            if params is not None:
                message["params"] = dict(params)
            await self.call.event(encode(message))

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send a progress notification, if the client sent a progress token."""
        meta = (self.message.params or {}).get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        if token is None:
            return
        params = {"progressToken": token, "progress": progress, "total": total, "message": message}
        await self.notify("notifications/progress", {key: value for key, value in params.items() if value is not None})
