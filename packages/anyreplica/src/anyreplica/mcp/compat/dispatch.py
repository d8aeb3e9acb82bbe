"""The transport interface that the SDK's runner needs for one message over HTTP, with the levels of its log messages.

The level that a session has set wins over `client_log_level` of the server. This module uses private names of FastMCP,
which `tests/test_private_names.py` lists.
"""

import logging
from collections.abc import Mapping
from contextvars import ContextVar
from functools import cached_property
from typing import Any, cast

import anyio
from fastmcp import FastMCP
from fastmcp.server.context import _current_context
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.subscriptions import ResourceUpdated, event_from_wire
from mcp.shared.transport_context import TransportContext
from mcp_types import INVALID_REQUEST
from starlette.requests import Request as HttpRequest
from starlette.types import Scope

from anyreplica.auth.caller import has_credentials
from anyreplica.http.request_record import drop_credentials, drop_session_id, headers_of
from anyreplica.http.responses import encode
from anyreplica.mcp.call import Call, ClientRequestError
from anyreplica.mcp.message import Notification, Request
from anyreplica.shared.publish import publish

logger = logging.getLogger(__name__)

_NO_SESSION = "__no_session__"
"""FastMCP's name for calls without a session."""

_DEFAULT: ContextVar[str] = ContextVar("default_log_level", default="")


_LEVEL = "_fastmcp_client_log_level"
"""FastMCP's key for the level of a session, since version 4.2."""


class _SessionLevels:
    """The levels of sessions for FastMCP before 4.2: they replace a dictionary that one replica alone would have.

    The session's level is in a record that all replicas share. A call reads it when it sends a message, so until then
    FastMCP must let every message of a session pass.
    """

    def get(self, session: str) -> str | None:
        """Return the lowest level for a session; None: FastMCP applies `client_log_level` itself."""
        return None if session == _NO_SESSION else _lowest_level()


class SessionState(dict[str, Any]):
    """The state of the connection of a session. FastMCP since 4.2 reads the level of the session there."""

    def get(self, key: str, default: Any = None) -> Any:
        """Return the lowest level as the level of the session, and the values of all other keys as they are."""
        return _lowest_level() if key == _LEVEL else super().get(key, default)


def _lowest_level() -> str:
    """Return the lowest level, and keep the one that applies if the session has set none."""
    context = _current_context.get()
    _DEFAULT.set((context.fastmcp.client_log_level if context is not None else None) or "")
    return "debug"


def share_levels(server: FastMCP) -> None:
    """Let the calls of sessions decide which log messages of a server their clients get. This may be repeated."""
    if hasattr(server, "_client_log_levels"):
        server._client_log_levels = cast("Any", _SessionLevels())


def use_default_level() -> str:
    """Return the level that applies to the current message if its session has set none. Empty: no minimum.

    FastMCP applies `client_log_level` to the messages of a Context, and not to those of `ctx.session`.
    """
    if found := _DEFAULT.get():
        _DEFAULT.set("")
    return found


class Dispatch:
    """The SDK's `DispatchContext` (a structural type). It sends notifications and requests in the reply to a request.

    `call` is None if the message is a notification, because a notification has no reply.
    """

    def __init__(self, message: Request | Notification, scope: Scope, call: Call | None = None) -> None:
        self.message = message
        self.call = call
        self.request_id = message.id
        if b"mcp-session-id" in headers_of(scope):
            drop_session_id(scope)
        if has_credentials(scope):
            drop_credentials(scope)
        self.http_request = HttpRequest(scope)

    @property
    def message_metadata(self) -> ServerMessageMetadata:
        return ServerMessageMetadata(request_context=self.http_request)

    @property
    def can_send_request(self) -> bool:
        """Whether the call can ask its client."""
        return self.call is not None and self.call.reply.may_stream and self.call.channel.can_ask

    @property
    def transport(self) -> TransportContext:
        return TransportContext(kind="streamable-http", can_send_request=self.can_send_request)

    @property
    def standalone(self) -> "CallOutbound":
        """The channel of the connection, for messages that belong to no call."""
        return CallOutbound(self)

    @cached_property
    def cancel_requested(self) -> anyio.Event:
        """An event that is never set: a client cancels a call by closing the connection, and this cancels the task."""
        return anyio.Event()

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
    ) -> dict[str, Any]:
        """Send a request to the client and return the result of its answer.

        Raises:
            ClientRequestError: the client cannot be asked, does not answer in time, or answers with an error.
        """
        if self.call is None:
            raise ClientRequestError(INVALID_REQUEST, f"A notification cannot send {method}, because it has no reply.")
        return await self.call.channel.ask(self.call, method, params, opts or {})

    async def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,  # noqa: ARG002
    ) -> None:
        """Send a notification before the result, if the client accepts an event stream.

        An update of a resource also reaches all clients that listen, on any replica. A change of a list does not,
        because FastMCP sends one when only the session of this call sees other components.
        """
        listens = self.message.method == "subscriptions/listen"  # its notifications are what was published
        if not listens and isinstance(change := event_from_wire(method, params), ResourceUpdated):
            await publish(change)
        if self.call is not None and self.call.reply.may_stream:
            if method == "notifications/message" and not await self.call.channel.wants(
                (params or {}).get("level", ""), use_default_level()
            ):
                return
            message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
            if params is not None:
                message["params"] = dict(params)
            await self.call.reply.event(encode(message))

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send a progress notification, if the client sent a progress token."""
        meta = (self.message.params or {}).get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        if token is None:
            return
        params = {"progressToken": token, "progress": progress, "total": total, "message": message}
        await self.notify("notifications/progress", {key: value for key, value in params.items() if value is not None})


class CallOutbound:
    """The SDK's `Outbound` of a connection, for messages that belong to no call.

    Requests go to the event stream of the call. Notifications of changes go to all clients that listen, on any replica.
    Other notifications are dropped.
    """

    def __init__(self, dispatch: Dispatch) -> None:
        self._dispatch = dispatch

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Send a request like `Dispatch.send_raw_request`."""
        return await self._dispatch.send_raw_request(method, params, opts)

    async def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,  # noqa: ARG002
    ) -> None:
        """Publish a change of a list or a resource. Drop any other notification."""
        change = event_from_wire(method, params)
        if change is not None:
            await publish(change)


class SdkDispatch(Dispatch):
    """The `Dispatch` of a call to a server of the SDK: what its code sends and catches is as in the SDK's app."""

    @property
    def standalone(self) -> "SdkOutbound":
        """The channel of the connection, for messages that belong to no call."""
        return SdkOutbound(self)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Send a request to the client and return the result of its answer.

        Raises:
            NoBackChannelError: the call cannot send requests to its client. The log says why.
            ClientRequestError: the client lacks the capability, does not answer in time, or answers with an error.
        """
        try:
            return await super().send_raw_request(method, params, opts)
        except ClientRequestError as error:
            if self.can_send_request:
                raise
            logger.info("%s", error)
            raise NoBackChannelError(method) from error


class SdkOutbound(CallOutbound):
    """The `CallOutbound` of a call to a server of the SDK.

    A notification also goes to the event stream of the client's session, on any replica, if the client has opened one.
    """

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """Publish a change of a list or a resource. Send any notification to the client of the call."""
        await super().notify(method, params, opts)
        call = self._dispatch.call
        is_of_list = method.endswith("/list_changed")  # the event streams of all sessions get what was published
        if call is not None and not is_of_list:
            await call.channel.notify_session(method, params)
