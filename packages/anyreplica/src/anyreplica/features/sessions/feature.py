"""The feature *sessions*: requests to handshake-protocol clients, event streams, and calls that clients can resume."""

import logging
from collections.abc import Sequence

from fastmcp.server.middleware import Middleware

from anyreplica.feature import Feature, Parts, Replica
from anyreplica.features.sessions.requests import AdoptedCalls, SessionRequests
from anyreplica.features.sessions.rounds import Rounds
from anyreplica.features.sessions.session_methods import SessionMethods
from anyreplica.features.sessions.sessions import Sessions
from anyreplica.features.sessions.settings import SessionSettings
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
        taken = AdoptedCalls(sessions, limits, replica.answer, replica.logged)
        return Parts(
            sessions=SessionRequests(sessions, limits, taken),
            collectors=sessions.collectors,
            running=[sessions.running()],
            on_drain=[sessions.leave],
        )
