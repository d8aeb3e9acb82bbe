"""A call: one request that passed the checks of its protocol, and the channel on which it can ask its client.

`HandshakeSessions` is what the endpoint asks of the feature that has the sessions of handshake-protocol clients.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Protocol

import anyio
from fastmcp.exceptions import ToolError
from mcp import MCPError
from mcp.server.connection import Connection
from mcp.shared.dispatcher import CallOptions, Outbound
from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, INVALID_REQUEST
from starlette.types import Receive, Scope, Send

from anyreplica.components.problems import LONGEST_TEXT
from anyreplica.http.request_record import Headers, RequestRecord, record_of
from anyreplica.mcp.message import Notification, Request, Response
from anyreplica.mcp.reply import Reply


class ClientRequestError(MCPError, ToolError):
    """A request to the client has failed, or the client has answered it with an error.

    A tool can catch this error as the SDK's `MCPError`. If the tool does not catch it, its text becomes the text of the
    tool's error, because FastMCP does not hide a `ToolError` from callers.
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        # The client may have written the text.
        line = "".join(letter if letter.isprintable() else " " for letter in message[:LONGEST_TEXT])
        super().__init__(code, line, data)


class HandlerFailed(MCPError):
    """The code of a server of the SDK has failed, and the client may read the text of its exception."""


class ClientChannel(Protocol):
    """Sends requests from one call to its client.

    Attributes:
        can_ask: whether the call can send requests to its client at all.
        is_open: whether `open` has nothing to do.
    """

    can_ask: bool
    is_open: bool

    async def open(self, call: "Call") -> "Call":
        """Open the session of the call, so that the call knows its client. Return the call to go on with.

        It has the protocol version of the session if the request does not name one.

        Raises:
            Refused: HTTP 404: the session id of the call is not valid.
        """

    async def wants(self, level: str, default: str) -> bool:
        """Return whether the client gets log messages of this level.

        Args:
            default: the minimum level if the client has set none. Empty: no minimum.
        """

    def connection(self, call: "Call", outbound: Outbound) -> Connection:
        """Return the SDK's connection, which sends requests to `outbound`."""

    def session_key(self, call: "Call") -> str:
        """Return the text that identifies the session of the call for tools and traces; return an empty text if it has
        none. It is not the session id, with which others could use the session.
        """

    def reply_headers(self, call: "Call", result: Mapping[str, Any]) -> Sequence[tuple[bytes, bytes]]:
        """Return the headers that the reply to `initialize` gets in addition."""

    async def notify_session(self, method: str, params: Mapping[str, Any] | None) -> None:
        """Send a notification that belongs to no call, on the event stream of the session, if the client has one."""

    async def ask(
        self, call: "Call", method: str, params: Mapping[str, Any] | None, opts: CallOptions
    ) -> dict[str, Any]:
        """Send a request to the client, and return the result of its answer.

        Raises:
            ClientRequestError: the client cannot be asked, does not answer in time, or answers with an error.
        """


class UnknownClient(Connection):
    """A connection of one call, whose client has not said who it is.

    `Connection.from_envelope` makes the same, but it validates the missing values, which costs two exceptions. It also
    makes an event and a stack, which hardly any call uses.
    """

    def __init__(self, version: str, outbound: Outbound) -> None:
        self.outbound = outbound
        self.protocol_version = version
        self.session_id = None
        self.client_capabilities = None
        self.client_params = None
        self.state = {}

    @cached_property
    def initialized(self) -> anyio.Event:  # type: ignore[override]
        event = anyio.Event()
        event.set()
        return event

    @cached_property
    def exit_stack(self) -> AsyncExitStack:  # type: ignore[override]
        return AsyncExitStack()


class NoClientChannel:
    """The channel of a call that cannot ask its client.

    Args:
        reason: the text of the error that a request gets.
    """

    __slots__ = ("reason",)

    can_ask = False
    is_open = True

    def __init__(self, reason: str) -> None:
        self.reason = reason

    async def open(self, call: "Call") -> "Call":
        """Return the same call, because there is no session."""
        return call

    async def wants(self, level: str, default: str) -> bool:  # noqa: ARG002
        """Return True: without a session, the client gets all log messages that FastMCP sends."""
        return True

    def connection(self, call: "Call", outbound: Outbound) -> Connection:
        """Return a connection of a call without a session. The client's capabilities are unknown."""
        return UnknownClient(call.version, outbound)

    def session_key(self, call: "Call") -> str:  # noqa: ARG002
        """Return an empty text."""
        return ""

    def reply_headers(
        self,
        call: "Call",  # noqa: ARG002
        result: Mapping[str, Any],  # noqa: ARG002
    ) -> Sequence[tuple[bytes, bytes]]:
        """Return no headers."""
        return ()

    async def notify_session(self, method: str, params: Mapping[str, Any] | None) -> None:
        """Do nothing, because there is no session."""

    async def ask(
        self,
        call: "Call",  # noqa: ARG002
        method: str,
        params: Mapping[str, Any] | None,  # noqa: ARG002
        opts: CallOptions,  # noqa: ARG002
    ) -> dict[str, Any]:
        """Raise `ClientRequestError` with the reason."""
        raise ClientRequestError(INVALID_REQUEST, f"The server cannot send {method} to the client: {self.reason}")


STATELESS = NoClientChannel(
    "protocol version 2026-07-28 does not allow it; the component can return an InputRequiredResult."
)


OFF = NoClientChannel("HANDSHAKE_SESSIONS is off; the operator can set HANDSHAKE_SESSIONS=ask.")


NO_STREAM = NoClientChannel("the client accepts no event stream; send the header Accept with text/event-stream.")


@dataclass(slots=True)
class Call:
    """What was asked, with the ways back to the client. It never changes.

    mypy checks that. A frozen dataclass would check it again in each call, with 10,000 instructions.
    """

    request: Final[Request]
    version: Final[str]
    """The protocol version."""
    modern: Final[bool]
    """Whether the request uses the stateless protocol (2026-07-28 and later)."""
    scope: Final[Scope]
    record: Final[RequestRecord]
    reply: Final[Reply]
    """Sends the reply, and waits for it."""
    channel: Final[ClientChannel] = STATELESS
    """Sends requests to the client."""

    @property
    def client(self) -> tuple[Any, Any]:
        """The client's information and capabilities from `_meta` in the stateless protocol; otherwise None for both."""
        meta = (self.request.params or {}).get("_meta") if self.modern else None
        if not isinstance(meta, dict):
            return None, None
        return meta.get(CLIENT_INFO_META_KEY), meta.get(CLIENT_CAPABILITIES_META_KEY)


SESSION = "sessions.opened"
"""The note of a request about its opened session."""


class OpenedSession(Protocol):
    """The session of a request."""

    @property
    def key(self) -> str:
        """A text that identifies the session."""

    @property
    def expires(self) -> float:
        """Time at which the session ends, in seconds since 1970."""


def opened_session(scope: Scope) -> OpenedSession | None:
    """Return the session of a request. None: the request has none, or it has not been opened."""
    notes = record_of(scope).notes
    return None if notes is None else notes.get(SESSION)


class HandshakeSessions(Protocol):
    """The sessions of clients. Without them, each request of a client stands alone.

    Attributes:
        keeps_state: whether a session keeps state between its calls.
        on_end: functions to call with the key of a session that its client has ended.
    """

    keeps_state: bool
    on_end: list[Callable[[str], Awaitable[None]]]

    def call(
        self,
        request: Request,
        version: str,
        record: RequestRecord,
        scope: Scope,
        receive: Receive,
        send: Send,
        may_stream: bool,
        first_event_seconds: float,
    ) -> Call:
        """Return the call of a request. Its arguments are those of `Call` and `Reply`."""

    async def receive_response(self, response: Response, headers: Headers, scope: Scope, send: Send) -> None:
        """Pass the response of a client to the call that waits for it, and answer with status 202.

        Raises:
            Refused: no call waits for the response, or its session is not valid.
        """

    async def receive_notification(self, notification: Notification, headers: Headers, scope: Scope) -> None:
        """Cancel a call of a session, or report progress to it, if the notification asks for it."""

    async def answer_without_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a GET or a DELETE.

        Raises:
            Refused: the session is not valid, or a limit is reached.
        """
