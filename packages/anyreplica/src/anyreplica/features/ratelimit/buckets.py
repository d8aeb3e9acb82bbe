"""Token buckets: in the memory of this process, and in Redis, which all replicas share.

Calls that arrive during a request to Redis wait and form the next request together. So a call costs at most one round
trip, and less under load. A script in Redis takes the tokens. It uses the clock of Redis, so that the clocks of the
replicas do not matter.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anyreplica.process.event_loop import background_task
from anyreplica.settings.rate import Rate
from anyreplica.shared.outage import Outage
from anyreplica.shared.peers import Peers
from anyreplica.shared.script import RedisKeys, Script

if TYPE_CHECKING:
    from redis.asyncio import Redis

logger = logging.getLogger(__name__)

_MOST = 10_000
"""Maximum number of callers with a bucket. Full buckets are dropped first, because a new bucket is full, too."""

_ROUNDING = 1e-9
"""Number of tokens that a bucket may lack for a call. After the wait that a refusal names, rounding can leave it a
little below the cost."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision about a call. A refusal also has the number of tokens that remain."""

    granted: bool
    remaining: float = 0
    wait: float = 0
    """Seconds until the caller may retry. 0: the reason of the refusal is the number of calls in flight."""


GRANTED = Verdict(granted=True)


class Buckets:
    """The bucket and the number of calls in flight of each caller. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.running: dict[str, int] = {}
        """Number of calls in flight by caller, without callers that have none."""
        self._clock = clock
        self._buckets: dict[str, tuple[float, float, Rate]] = {}

    def take(self, name: str, rate: Rate, cost: float) -> Verdict:
        """Take `cost` tokens from a caller's bucket if it has enough, and count the granted call as in flight.

        A cost above the size of the bucket counts as the size of the bucket.
        """
        if rate.concurrent and self.running.get(name, 0) >= rate.concurrent:
            return Verdict(granted=False)
        verdict = self._spend(name, rate, cost) if rate.calls else GRANTED
        if rate.concurrent and verdict.granted:
            self.acquire_slot(name)
        return verdict

    def acquire_slot(self, name: str) -> None:
        """Increase the number of calls in flight by one."""
        self.running[name] = self.running.get(name, 0) + 1

    def release(self, name: str) -> None:
        """Decrease the number of calls in flight by one."""
        self.running[name] -= 1
        if not self.running[name]:
            del self.running[name]

    def _spend(self, name: str, rate: Rate, cost: float) -> Verdict:
        now = self._clock()
        per_second, burst = rate.calls / rate.seconds, rate.burst
        known = self._buckets.get(name)
        tokens = burst if known is None else min(burst, known[0] + (now - known[1]) * per_second)
        cost = min(cost, burst)
        if tokens < cost - _ROUNDING:
            return Verdict(granted=False, remaining=tokens, wait=(cost - tokens) / per_second)
        if known is None and len(self._buckets) >= _MOST:
            self._forget(now)
        self._buckets[name] = max(0.0, tokens - cost), now, rate
        return GRANTED

    def _forget(self, now: float) -> None:
        full = [
            name
            for name, (tokens, at, rate) in self._buckets.items()
            if tokens + (now - at) * rate.per_second >= rate.burst
        ]
        for name in full or list(self._buckets)[: _MOST // 10]:
            del self._buckets[name]


_ANSWER_SECONDS = 0.25
"""Time limit for an answer of Redis. In an outage only the first calls wait this long; later calls do not wait."""
_RETRY_SECONDS = 0.5
_REPORT_SECONDS = 2.0
"""Time between two reports to Redis of the calls that are still in flight."""


class _TakeScript(Script[list[bytes]]):
    """Takes tokens for several groups of calls.

    Returns a text for each key: number of granted calls, remaining tokens, and seconds until the next call is possible.
    """

    buckets: RedisKeys
    replica: str
    report_seconds: float
    """Time in seconds for which the report of another replica counts."""
    numbers: list[float]
    """For each key: tokens per second, burst, limit of calls in flight, cost of a call, number of calls that wait, and
    number of the caller's calls in flight on this replica."""

    lua = """
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local answers, granted_before = {}, {}
for number, key in ipairs(KEYS) do
  local at = numbers_start + number * 6 - 6
  local per_second, burst, most = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local cost, granted, mine = tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5])
  mine = mine + (granted_before[key] or 0)
  local bucket = redis.call('HMGET', key, 'tokens', 'time')
  local tokens, wait = tonumber(bucket[1]) or burst, 0
  tokens = math.min(burst, tokens + math.max(0, now - (tonumber(bucket[2]) or now)) * per_second)
  if granted > 0 and most > 0 then
    local running = mine
    local fields = redis.call('HGETALL', key)
    for index = 1, #fields, 2 do
      local other = string.match(fields[index], '^at:(.*)')
      if other and other ~= replica then
        local count, when = string.match(fields[index + 1], '^(%d+) (.*)')
        if now - tonumber(when) < report_seconds then running = running + tonumber(count) end
      end
    end
    granted = math.max(0, math.min(granted, most - running))
  end
  if granted > 0 and per_second > 0 then
    cost = math.min(cost, burst)
    local affordable = math.floor(tokens / cost)
    if affordable < granted then
      granted, wait = affordable, (cost - (tokens - affordable * cost)) / per_second
    end
    tokens = tokens - granted * cost
  end
  redis.call('HSET', key, 'tokens', string.format('%.6f', tokens), 'time', string.format('%.6f', now))
  if most > 0 then
    mine = mine + granted
    granted_before[key] = (granted_before[key] or 0) + granted
  end
  if most > 0 and mine > 0 then
    redis.call('HSET', key, 'at:' .. replica, string.format('%d %.6f', mine, now))
  elseif most > 0 then
    redis.call('HDEL', key, 'at:' .. replica)
  end
  local full = per_second > 0 and burst / per_second or 0
  redis.call('PEXPIRE', key, math.ceil((math.max(full, report_seconds) + 1) * 1000))
  answers[number] = string.format('%d %.6f %.6f', granted, tokens, wait)
end
return answers
"""


@dataclass(slots=True)
class _PendingTake:
    """Calls of one caller with the same cost, which wait for an answer of Redis.

    A take without calls only reports the caller's calls in flight.
    """

    name: str
    rate: Rate
    cost: float
    answers: list[asyncio.Future[Verdict]] = field(default_factory=list)


class SharedBuckets:
    """The buckets that all replicas share. `prefix` is the prefix of their keys in Redis.

    While Redis can't be reached, each replica applies its share of a rate limit: the limit divided by the number of
    replicas.

    Args:
        answer_seconds: time limit for an answer of Redis, in seconds.
    """

    def __init__(
        self, redis: "Redis", prefix: str, replica: str, peers: Peers, *, answer_seconds: float = _ANSWER_SECONDS
    ) -> None:
        self.outages = 0
        self._outage = Outage(logger, "this replica applies its share of each rate limit by itself")
        self._redis = redis
        self._prefix = f"{prefix}:rate:"
        self._replica = replica
        self._peers = peers
        self._answer_seconds = answer_seconds
        self._pending: dict[tuple[str, float, int], _PendingTake] = {}
        self._asking = False
        self._own = Buckets()
        self._rates: dict[str, Rate] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def take(self, name: str, rate: Rate, cost: float) -> Verdict:
        """Take `cost` tokens from a caller's bucket if it has enough, and count the granted call as in flight."""
        if self.degraded:
            return self._by_share(name, rate, cost)
        if rate.concurrent:
            self._rates[name] = rate
        answer: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._pending_take(name, rate, cost).answers.append(answer)
        try:
            return await answer
        except asyncio.CancelledError:
            if answer.done() and not answer.cancelled() and answer.result().granted:
                self.release(name, rate)
            raise

    def release(self, name: str, rate: Rate) -> None:
        """Decrease a caller's number of calls in flight by one, and report the new number to Redis for all replicas."""
        if rate.concurrent:
            self._own.release(name)
            if not self.degraded:
                self._pending_take(name, rate, 0)

    def running(self) -> AbstractAsyncContextManager[None]:
        """Report the calls in flight on this replica to Redis at intervals, while the context is open."""
        return background_task(self._report())

    def _pending_take(self, name: str, rate: Rate, cost: float) -> _PendingTake:
        key = name, cost, rate.concurrent
        take = self._pending.get(key)
        if take is None:
            take = self._pending[key] = _PendingTake(name, rate, cost)
        if not self._asking:
            self._asking = True
            asyncio.get_running_loop().call_soon(self._ask)  # one request has all calls of this turn of the event loop
        return take

    def _ask(self) -> None:
        pending, self._pending = list(self._pending.values()), {}
        self._begin(self._answer(pending))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, pending: list[_PendingTake]) -> None:
        for take in pending:
            take.answers = [answer for answer in take.answers if not answer.done()]  # a client may have gone
        verdicts = await self._ask_redis(pending)
        if verdicts is None:
            for take in [*pending, *self._pending.values()]:
                for answer in take.answers:
                    if not answer.done():
                        answer.set_result(self._by_share(take.name, take.rate, take.cost))
            self._pending = {}
        else:
            for take, (granted, refused) in zip(pending, verdicts, strict=True):
                self._answer_calls(take, granted, refused)
        self._asking = bool(self._pending)
        if self._pending:
            self._ask()

    def _answer_calls(self, take: _PendingTake, granted: int, refused: Verdict) -> None:
        for answer in take.answers:
            if answer.done():
                continue
            if granted and take.rate.concurrent:
                self._own.acquire_slot(take.name)
            answer.set_result(GRANTED if granted else refused)
            granted = max(0, granted - 1)

    async def _ask_redis(self, pending: list[_PendingTake]) -> list[tuple[int, Verdict]] | None:
        """Return for each take the number of granted calls and the verdict for the others. None: no answer."""
        numbers: list[float] = []
        for take in pending:
            rate, running = take.rate, self._own.running.get(take.name, 0)
            numbers += [rate.per_second, rate.burst, rate.concurrent, take.cost, len(take.answers), running]
        script = _TakeScript([self._key(take.name) for take in pending], self._replica, 3 * _REPORT_SECONDS, numbers)
        was_degraded = self.degraded
        with self._outage.best_effort():
            async with asyncio.timeout(self._answer_seconds):
                found = await script.run(self._redis)
            try:
                return [_read(answer) for answer in found]
            except ValueError as error:  # without an answer, the calls would wait for ever
                raise OSError(str(error)) from None
        if not was_degraded:
            self.outages += 1
            self._begin(self._return())
        return None

    def _by_share(self, name: str, rate: Rate, cost: float) -> Verdict:
        return self._own.take(name, rate.share(self._peers.count), cost)

    async def _return(self) -> None:
        """Share the limits again as soon as Redis answers."""
        while self.degraded:
            await asyncio.sleep(_RETRY_SECONDS)
            with self._outage.best_effort():
                async with asyncio.timeout(self._answer_seconds):
                    await self._redis.ping()

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(_REPORT_SECONDS)
            self._rates = {name: rate for name, rate in self._rates.items() if name in self._own.running}
            if not self.degraded:
                for name, rate in self._rates.items():
                    self._pending_take(name, rate, 0)

    @property
    def degraded(self) -> bool:
        """Whether this replica applies its share of each limit, because Redis can't be reached."""
        return self._outage.is_on

    def _key(self, name: str) -> str:
        return self._prefix + hashlib.blake2b(name.encode(), digest_size=16).hexdigest()


def _read(answer: bytes) -> tuple[int, Verdict]:
    granted, remaining, wait = answer.split()
    return int(granted), Verdict(granted=False, remaining=float(remaining), wait=float(wait))
