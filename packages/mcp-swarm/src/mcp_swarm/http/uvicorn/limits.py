"""The limits of a replica's connections."""

import logging
import random
import resource
from dataclasses import dataclass

from mcp_swarm.settings import Settings

logger = logging.getLogger(__name__)

_JITTER = 0.25
"""Each connection's limits of age and requests differ at random, by at most this share of the setting. Otherwise all
connections that were made together would end together."""

_FILES_BESIDE = 256
"""Open files that are no connections of callers: what tools open, a database's connections, Python's own."""


@dataclass(frozen=True)
class Limits:
    """The limits of each connection, and of all together."""

    connections: int
    """Most connections. A new one replaces one that is idle or slow."""
    requests: int
    """Most requests of a connection, more or less; 0: any number."""
    age: float
    """Seconds after which a connection ends, more or less; 0: never."""
    receive: float
    """Most seconds for a request's head to arrive."""
    send: float
    """Seconds in which a client must read at least one byte of what waits for it."""
    head: int
    """Most bytes of a request's head."""
    unsent: int
    """Most bytes of all replies that wait for their clients."""
    compresses_from: float = float("inf")
    """Responses of at least so many bytes are compressed for callers that accept it."""

    def share_of_requests(self) -> int:
        """Most requests of a new connection; -1: any number."""
        return max(1, round(_about(self.requests))) if self.requests else -1

    def share_of_age(self) -> float:
        """How many seconds a new connection lives."""
        return _about(self.age) if self.age else float("inf")


def of(settings: Settings) -> Limits:
    """The limits that the settings ask for."""
    return Limits(
        connections=settings.max_connections,
        requests=settings.max_requests_per_connection,
        age=settings.max_connection_age_seconds,
        receive=settings.receive_timeout_seconds,
        send=settings.send_timeout_seconds,
        head=settings.max_head_bytes,
        unsent=settings.max_buffered_bytes,
        compresses_from=settings.compress_min_bytes or float("inf"),
    )


def allow_files(connections: int) -> None:
    """Have the system let this process open a file for each of so many connections; warn if it doesn't.

    Many systems begin at 1024 and let a process ask for more. One that runs out of files can't accept connections.
    """
    wanted = connections + _FILES_BESIDE
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY or files >= wanted:
        return
    granted = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (granted, most))
    if granted < wanted:
        text = "MAX_CONNECTIONS=%d takes %d open files, and this process may have %d (ulimit -n)"
        logger.warning(text, connections, wanted, granted)


def _about(number: float) -> float:
    return number * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311  # no secret hangs on it
