"""What lets calls in by their callers' rates."""

import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from fnmatch import translate
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from starlette.types import Scope

from mcp_swarm.auth.address import Addresses
from mcp_swarm.auth.caller import ANYBODY, caller_of
from mcp_swarm.ratelimit.buckets import Buckets
from mcp_swarm.ratelimit.running import Running
from mcp_swarm.ratelimit.shared_buckets import Fleet
from mcp_swarm.ratelimit.verdict import refusal
from mcp_swarm.settings import Settings
from mcp_swarm.settings.rate import Rate
from mcp_swarm.shared.peers import Peers

if TYPE_CHECKING:
    from redis.asyncio import Redis

_ALL_CALLERS = "all"


class Gate:
    """Lets calls in, or refuses them with 429.

    Args:
        redis: what replicas share, if they do; without it a caller's rate holds in each replica.
        replica: this one's name.
        peers: know how many replicas there are.
    """

    def __init__(self, settings: Settings, redis: "Redis | None", replica: str, peers: Peers) -> None:
        self._rate = settings.rate
        self._of_replica = settings.replica_rate
        self._addresses = Addresses(settings.trusted_proxies)
        self._cost = lru_cache(1024)(partial(_cost, _compiled(settings.costs))) if settings.costs else None
        self._bounds = False
        running = Running()
        self._running = running
        self._buckets = Buckets(running)
        name = settings.mcp_name
        self.fleet = Fleet(redis, name, replica, peers, running) if redis is not None else None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Bound calls meanwhile; those by which a replica warms up are nobody's."""
        async with self.fleet.running() if self.fleet is not None else nullcontext():
            self._bounds = True
            yield

    async def enter(self, scope: Scope, tool: str, identity: int | str | None) -> Callable[[], None] | None:
        """Let a call in.

        Args:
            tool: or job, whose cost it has; empty for a request of another kind, which costs 1.
            identity: of the JSON-RPC request.

        Returns:
            What to call when it is answered, if anything.

        Raises:
            Refused: 429.
        """
        if not self._bounds:
            return None
        cost = self._cost(tool) if self._cost is not None else 1
        if self._of_replica.calls:
            verdict = self._buckets.take(_ALL_CALLERS, self._of_replica, cost)
            if not verdict.granted:
                raise refusal(self._of_replica, verdict, identity)
        caller = caller_of(scope)
        rate = self._rate if caller is None else caller.rate
        if not rate.bounds:
            return None
        name = caller.name if caller is not None else self._addresses.of(scope) or ANYBODY
        if self.fleet is not None:
            verdict = await self.fleet.take(name, rate, cost)
        else:
            verdict = self._buckets.take(name, rate, cost)
        if not verdict.granted:
            raise refusal(rate, verdict, identity)
        return partial(self._leave, name, rate) if rate.concurrent else None

    def _leave(self, name: str, rate: Rate) -> None:
        if self.fleet is not None:
            self.fleet.leave(name, rate)
        else:
            self._running.leave(name)


def gate(settings: Settings, redis: "Redis | None", replica: str, peers: Peers) -> Gate | None:
    """The gate, if the settings bound anything or may do so by keys."""
    bounds = settings.rate.bounds or settings.replica_rate.bounds or settings.api_keys_file
    return Gate(settings, redis, replica, peers) if bounds else None


def _compiled(costs: Sequence[tuple[str, int]]) -> list[tuple[re.Pattern[str], int]]:
    return [(re.compile(translate(pattern)), cost) for pattern, cost in costs]


def _cost(costs: Sequence[tuple[re.Pattern[str], int]], tool: str) -> int:
    """What the first pattern says that a tool's name fits."""
    return next((cost for pattern, cost in costs if pattern.match(tool)), 1)
