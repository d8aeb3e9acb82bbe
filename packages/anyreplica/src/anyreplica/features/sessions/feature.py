"""The feature *sessions*: requests to handshake-protocol clients, event streams, and calls that clients can resume.

It also has the methods that such a client can use only in a session: subscriptions and the log level.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.middleware import Middleware
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    EmptyResult,
    SetLevelRequestParams,
    SubscribeRequestParams,
    UnsubscribeRequestParams,
)
from starlette.types import Scope

from anyreplica.feature import Feature, Parts, Replica
from anyreplica.features.sessions.requests import AdoptedCalls, SessionRequests
from anyreplica.features.sessions.rounds import Rounds
from anyreplica.features.sessions.session import Session
from anyreplica.features.sessions.sessions import Sessions
from anyreplica.features.sessions.settings import SessionSettings
from anyreplica.features.sessions.streams import RecordRefused, SessionRecords
from anyreplica.http.request_record import record_of
from anyreplica.http.responses import UNAVAILABLE
from anyreplica.mcp.call import SESSION
from anyreplica.mcp.compat import sdk
from anyreplica.mcp.compat.sdk_server import SdkServer
from anyreplica.mcp.components import cannot_ask

logger = logging.getLogger(__name__)


class ClientSessions(Feature):
    """The sessions of handshake-protocol clients, if HANDSHAKE_SESSIONS is `ask` or `full`."""

    settings: SessionSettings

    def mcp_middleware(self) -> Sequence[Middleware]:
        """Return the middleware that drives multi-round components. Without sessions, it refuses them."""
        return [Rounds()]

    def attach(self, replica: Replica) -> Parts:
        settings, limits = self.settings, replica.limits
        if settings.handshake_sessions == "off":
            if reason := cannot_ask(replica.mcp, settings):
                logger.info("%s", reason)
            return Parts()
        sessions = Sessions(settings, replica.redis, limits.in_flight, limits.memory, replica.bus)
        if sessions.records is not None:
            SessionMethods(sessions.records, sessions.caller).offer(replica.mcp)
        adopted = AdoptedCalls(sessions, limits, replica.answer, replica.logged)
        return Parts(
            sessions=SessionRequests(sessions, limits, adopted),
            collectors=sessions.collectors,
            running=[sessions.running()],
            on_drain=[sessions.leave],
        )


class SessionMethods:
    """The handlers of the methods. They write the record of the session, which every replica reads.

    Args:
        caller: returns the caller whose share of the limits a request uses.
    """

    _mcp: FastMCP

    def __init__(self, records: SessionRecords, caller: Callable[[Scope], str]) -> None:
        self._records = records
        self._caller = caller

    def offer(self, mcp: FastMCP) -> None:
        """Register the handlers, and announce that a session gets notifications of changed lists.

        A server of the SDK has only the methods that its author has chosen.
        """
        if isinstance(mcp, SdkServer):
            return
        self._mcp = mcp
        server = sdk.low_level(mcp)
        server.notification_options = NotificationOptions(
            prompts_changed=True, resources_changed=True, tools_changed=True
        )
        server.add_request_handler("logging/setLevel", SetLevelRequestParams, self._set_level)
        server.add_request_handler("resources/subscribe", SubscribeRequestParams, self._subscribe)
        server.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, self._unsubscribe)

    async def _set_level(self, ctx: ServerRequestContext[Any, Any], params: SetLevelRequestParams) -> EmptyResult:
        """Set the minimum level of the log messages that this session gets. Without a session, do nothing."""
        session = _session(ctx)
        if session is not None and ctx.request is not None:
            with _reachable():
                await self._records.set_level(session, self._caller(ctx.request.scope), params.level)
        return EmptyResult()

    async def _subscribe(self, ctx: ServerRequestContext[Any, Any], params: SubscribeRequestParams) -> EmptyResult:
        """Subscribe a session to a resource that its caller may see."""
        session, uri = _required(ctx), str(params.uri)
        assert ctx.request is not None  # noqa: S101  # the session comes from the request
        with _reachable():
            if not await sdk.has_resource(self._mcp, ctx, uri):
                raise MCPError(INVALID_PARAMS, f"Resource not found: {uri!r}", {"uri": uri})
            await self._records.subscribe(session, self._caller(ctx.request.scope), uri)
        return EmptyResult()

    async def _unsubscribe(self, ctx: ServerRequestContext[Any, Any], params: UnsubscribeRequestParams) -> EmptyResult:
        """End the subscription of a session to a resource."""
        with _reachable():
            await self._records.unsubscribe(_required(ctx), str(params.uri))
        return EmptyResult()


def _session(ctx: ServerRequestContext[Any, Any]) -> Session | None:
    notes = None if ctx.request is None else record_of(ctx.request.scope).notes
    return None if notes is None else notes.get(SESSION)


def _required(ctx: ServerRequestContext[Any, Any]) -> Session:
    session = _session(ctx)
    if session is None:
        text = f"{ctx.method} needs a session: send initialize first, and its Mcp-Session-Id with each request."
        raise MCPError(INVALID_REQUEST, text)
    return session


@contextmanager
def _reachable() -> Iterator[None]:
    try:
        yield
    except OSError:
        raise MCPError(INTERNAL_ERROR, "The server's Redis cannot be reached; retry later.") from None
    except RecordRefused as refused:
        raise MCPError(UNAVAILABLE if refused.may_retry else INVALID_PARAMS, str(refused)) from None
    except ToolError as error:  # of the state of the session, which says what the session hides
        raise MCPError(INTERNAL_ERROR, str(error)) from None
