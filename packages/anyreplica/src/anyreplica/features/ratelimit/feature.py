"""The feature *rate limits*: it refuses calls beyond the limit of a caller or of the whole replica."""

import math
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import Scope

from anyreplica.auth.caller import ANYBODY, caller_of
from anyreplica.auth.client_identity import ClientIdentities
from anyreplica.feature import Feature, Parts, Replica
from anyreplica.features.ratelimit.buckets import Buckets, SharedBuckets, Verdict
from anyreplica.features.ratelimit.settings import RateLimitSettings
from anyreplica.http.responses import UNAVAILABLE, Refused
from anyreplica.settings.rate import Rate
from anyreplica.shared.peers import Peers

if TYPE_CHECKING:
    from redis.asyncio import Redis


_ALL_CALLERS = "all"


class RateLimiter:
    """The rate limiter. It refuses a call beyond a limit with HTTP 429.

    With Redis all replicas share a caller's rate limit. Without Redis each replica applies the whole limit by itself.
    """

    def __init__(self, settings: RateLimitSettings, redis: "Redis | None", replica: str, peers: Peers) -> None:
        self._rate = settings.rate
        self._of_replica = settings.replica_rate
        self._clients = ClientIdentities(settings.trusted_proxies)
        self._cost = lru_cache(1024)(partial(_cost, settings.costs)) if settings.costs else None
        self._bounds = False
        self._buckets = Buckets()
        self.has_costs = self._cost is not None
        self.is_local = redis is None
        self.shared_buckets = SharedBuckets(redis, settings.mcp_name, replica, peers) if redis is not None else None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Apply the limits while the context is open. The calls that warm up a replica come before that."""
        async with self.shared_buckets.running() if self.shared_buckets is not None else nullcontext():
            self._bounds = True
            yield

    async def acquire(
        self, scope: Scope, tool: str, identity: int | str | None, *, concurrent: bool = True
    ) -> Callable[[], None] | None:
        """Accept or refuse a call of a tool or job. `tool` is empty for any other request, which costs 1.

        Args:
            concurrent: whether the request counts for the limit of calls that run at the same time.

        Returns:
            A function to call when the request is answered, or None if there is nothing to do.

        Raises:
            Refused: the caller or the replica is at a limit (HTTP 429).
        """
        if self.shared_buckets is None:
            return self.acquire_now(scope, tool, identity, concurrent=concurrent)
        if not self._bounds:
            return None
        name, rate, cost = self._bounds_of(scope, tool, concurrent=concurrent)
        release = None
        if rate.calls or rate.concurrent:
            verdict = await self.shared_buckets.take(name, rate, cost)
            if not verdict.granted:
                raise _refusal(rate, verdict, identity)
            if rate.concurrent:
                release = partial(self.shared_buckets.release, name, rate)
        if self._of_replica.calls:
            self._acquire_of_replica(cost, identity, release)
        return release

    def acquire_now(
        self, scope: Scope, tool: str, identity: int | str | None, *, concurrent: bool = True
    ) -> Callable[[], None] | None:
        """Accept or refuse a call like `acquire`, by the limits of this replica only."""
        if not self._bounds:
            return None
        name, rate, cost = self._bounds_of(scope, tool, concurrent=concurrent)
        release = None
        if rate.calls or rate.concurrent:
            verdict = self._buckets.take(name, rate, cost)
            if not verdict.granted:
                raise _refusal(rate, verdict, identity)
            if rate.concurrent:
                release = partial(self._buckets.release, name)
        if self._of_replica.calls:
            self._acquire_of_replica(cost, identity, release)
        return release

    def _acquire_of_replica(self, cost: int, identity: int | str | None, release: Callable[[], None] | None) -> None:
        """Take what a call costs from the replica's limit. `release` ends the call for its caller's limit.

        This comes after the caller's limit: a caller beyond its own limit must not use up what others need.

        Raises:
            Refused: the replica is at its limit (HTTP 429).
        """
        verdict = self._buckets.take(_ALL_CALLERS, self._of_replica, cost)
        if not verdict.granted:
            if release is not None:
                release()
            raise _refusal(self._of_replica, verdict, identity)

    def _bounds_of(self, scope: Scope, tool: str, *, concurrent: bool) -> tuple[str, Rate, int]:
        """Return the name of a request's caller, the caller's rate and the cost of the request."""
        cost = self._cost(tool) if self._cost is not None else 1
        caller = caller_of(scope)
        rate = self._rate if caller is None or caller.rate is None else caller.rate
        if not concurrent and rate.concurrent:
            rate = rate.replace(concurrent=0)
        return (caller.identity if caller is not None else self._clients.of(scope) or ANYBODY), rate, cost


class RateMetrics(Collector):
    """The metrics of outages of Redis, in which a replica applies its own share of the limits."""

    def __init__(self, shared_buckets: SharedBuckets) -> None:
        self._shared_buckets = shared_buckets

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        text = "1 while the replica applies its share of the rate limits, because Redis can't be reached."
        yield GaugeMetricFamily("mcp_rates_alone", text, self._shared_buckets.degraded)
        text = "Number of outages of Redis during which the replica applied its share of the rate limits."
        yield CounterMetricFamily("mcp_rates_outages", text, self._shared_buckets.outages)


class RateLimits(Feature):
    """Refuses calls beyond RATE_LIMIT, REPLICA_RATE_LIMIT, or the rate of a caller's key."""

    settings: RateLimitSettings

    def attach(self, replica: Replica) -> Parts:
        limiter = rate_limiter(self.settings, replica.redis, replica.name, replica.peers)
        if limiter is None:
            return Parts()
        collectors = [] if limiter.shared_buckets is None else [RateMetrics(limiter.shared_buckets)]
        return Parts(limiter=limiter, collectors=collectors, running=[limiter.running()])


def rate_limiter(settings: RateLimitSettings, redis: "Redis | None", replica: str, peers: Peers) -> RateLimiter | None:
    """Return the rate limiter, or None if there is no limit. A file of API keys may contain limits."""
    bounds = settings.rate.bounds or settings.replica_rate.bounds or settings.api_keys_file
    return RateLimiter(settings, redis, replica, peers) if bounds else None


def _cost(costs: Sequence[tuple[str, int]], tool: str) -> int:
    """Return the cost of a tool: the cost of the first pattern that matches its name, else 1."""
    return next((cost for pattern, cost in costs if fnmatchcase(tool, pattern)), 1)


def _refusal(rate: Rate, verdict: Verdict, identity: int | str | None) -> Refused:
    """Return HTTP 429 (RFC 6585, section 4) with the headers of draft-ietf-httpapi-ratelimit-headers-06, section 5."""
    wait = max(1, math.ceil(verdict.wait))
    if verdict.wait:
        text = f"Too many calls: the rate limit is {rate}; retry in {wait} s."
        limit, reason = rate.calls, "rate"
    else:
        text = f"Too many calls in flight: the limit is {rate.concurrent}; retry when one of them ends."
        limit, reason = rate.concurrent, "concurrent"
    headers = {
        "Retry-After": str(wait),
        "RateLimit-Limit": f"{math.ceil(limit)}",
        "RateLimit-Remaining": f"{math.floor(verdict.remaining)}",
        "RateLimit-Reset": str(wait),
    }
    data = {"reason": reason, "retry_after": wait}
    return Refused(429, text, code=UNAVAILABLE, data=data, identity=identity, headers=headers)
