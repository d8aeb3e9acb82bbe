"""The feature *rate limits*: limits of the calls of each caller and of the whole replica."""

from anyreplica.feature import Feature, Parts, Replica
from anyreplica.features.ratelimit.limiter import rate_limiter
from anyreplica.features.ratelimit.metrics import RateMetrics


class RateLimits(Feature):
    """Refuses calls beyond RATE_LIMIT, REPLICA_RATE_LIMIT, or the rate of a caller's key."""

    def attach(self, replica: Replica) -> Parts:
        limiter = rate_limiter(self.settings, replica.redis, replica.name, replica.peers)
        if limiter is None:
            return Parts()
        collectors = [] if limiter.fleet is None else [RateMetrics(limiter.fleet)]
        return Parts(limiter=limiter, collectors=collectors, running=[limiter.running()])
