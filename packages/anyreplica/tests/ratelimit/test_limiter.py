"""Tests of the order in which a call uses the limits."""

from types import SimpleNamespace

import pytest

from anyreplica.auth.caller import Caller
from anyreplica.features.ratelimit.feature import RateLimiter
from anyreplica.features.ratelimit.settings import RateLimitSettings
from anyreplica.http.request_record import RECORD
from anyreplica.http.responses import Refused
from anyreplica.settings.rate import parse
from anyreplica.shared.peers import Peers

pytestmark = pytest.mark.anyio


def _scope(name: str) -> dict[str, object]:
    caller = Caller(name, name, rate=parse("2/h").replace(2, 100))
    return {"type": "http", "headers": [], RECORD: SimpleNamespace(caller=caller)}


async def test_a_caller_beyond_its_limit_uses_nothing_of_the_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its refused calls leave the replica's limit to others. A call that the replica refuses ends for its caller."""
    monkeypatch.setenv("REPLICA_RATE_LIMIT", "12/h")  # at most ten calls at once
    limiter = RateLimiter(RateLimitSettings(), None, "r1", Peers(1))
    greedy = _scope("greedy")
    async with limiter.running():
        for _ in range(2):
            limiter.acquire_now(greedy, "echo", 1)
        for _ in range(20):
            with pytest.raises(Refused, match="2/h"):
                limiter.acquire_now(greedy, "echo", 1)
        for number in range(8):
            limiter.acquire_now(_scope(f"other {number}"), "echo", 1)
        with pytest.raises(Refused, match="12/h"):
            limiter.acquire_now(_scope("last"), "echo", 1)
    assert "last" not in str(limiter._buckets.running)
    assert sum(limiter._buckets.running.values()) == 10
