"""Features that a replica offers only while it is the only replica."""

import logging

from fastmcp import FastMCP
from fastmcp.server.extensions import ServerExtension

from anyreplica.jobs.service import JobService
from anyreplica.mcp import _sdk
from anyreplica.mcp.job_tools import tools_of
from anyreplica.mcp.sharing import Sharing
from anyreplica.mcp.tasks import TASKS_EXTENSION
from anyreplica.sessions.sessions import Sessions
from anyreplica.settings import Settings

logger = logging.getLogger(__name__)


class AloneOnly:
    """The features with data in the memory of this replica: jobs in process, subscriptions, and requests to clients.

    With Redis, subscriptions and requests to clients do not belong to these features, because replicas share their
    data. Other replicas do not have the data in this replica's memory. So the replica withdraws these features when
    another replica starts, and offers them again when it is the only replica.
    """

    def __init__(
        self, settings: Settings, mcp: FastMCP, service: JobService, share: Sharing, sessions: Sessions | None
    ) -> None:
        self._settings = settings
        self._mcp = mcp
        self._service = service
        self._share = share
        self._tasks: ServerExtension | None = None
        self._jobs = bool(service.jobs) and settings.jobs_in_process
        self._sessions = sessions if settings.redis_url is None else None
        self._subscriptions = share.subscriptions if settings.redis_url is None else None
        share.peers.on_change.append(self.follow)

    def follow(self) -> None:
        """Offer or withdraw the features, depending on the number of replicas, and log the change in one line."""
        alone = self._share.peers.alone
        what = []
        if self._jobs:
            what.append("jobs (they need JOBS_URL=redis://…)")
            self._follow_jobs(alone=alone)
        if self._subscriptions is not None:
            what.append("subscriptions (they need REDIS_URL)")
            self._subscriptions.offer() if alone else self._subscriptions.withdraw()
        if self._sessions is not None:
            what.append("requests to handshake-protocol clients (they need REDIS_URL)")
            self._sessions.requests.offered = alone
        if alone:
            offered = " and ".join(what) or "everything"
            logger.warning("This replica is the only one again; it offers %s again", offered)
            return
        if not self._settings.request_state_ring:
            what.append("multi-round tools (all replicas need the same REQUEST_STATE_KEYS)")
        if what:
            count = self._share.peers.count
            logger.warning("There are %d replicas now; this replica no longer offers %s", count, ", ".join(what))

    def _follow_jobs(self, *, alone: bool) -> None:
        extensions = _sdk.extensions_of(self._mcp)
        if not alone:
            for tool in tools_of(self._service):
                self._mcp.local_provider.remove_tool(tool.name)
            self._tasks = extensions.pop(TASKS_EXTENSION, None)
        self._service.follow(1 if alone else self._share.peers.count)
        if alone:
            for tool in tools_of(self._service):
                self._mcp.add_tool(tool)
            if self._tasks is not None:
                extensions[TASKS_EXTENSION] = self._tasks
