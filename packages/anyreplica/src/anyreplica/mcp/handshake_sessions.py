"""What the endpoint asks of the feature that has the sessions of handshake-protocol clients."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from starlette.types import Receive, Scope, Send

from anyreplica.http.request_record import Headers, RequestRecord, record_of
from anyreplica.mcp.call import Call
from anyreplica.mcp.message import Notification, Request, Response

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
