"""The replicas that are known. Each replica writes a short record to Redis, and reads the records of the others."""

import asyncio
import json
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from anyreplica.process.event_loop import background_task
from anyreplica.shared.lost_redis import patiently
from anyreplica.shared.outage import Outage
from anyreplica.shared.script import RedisKey, Script

if TYPE_CHECKING:
    from redis.asyncio import Redis

logger = logging.getLogger(__name__)

_EVERY_SECONDS = 1.0
_GONE_SECONDS = 10
"""Age in seconds after which the record of a replica is removed."""


class _Exchange(Script[list[list[bytes]]]):
    """Writes the record of this replica and removes old records.

    Returns all remaining records, each with its age in seconds. The times come from the clock of Redis.
    """

    records: RedisKey
    replica: str
    record: str
    gone_seconds: int

    lua = """
local now = redis.call('TIME')
now = now[1] + now[2] / 1000000
redis.call('HSET', records, replica, string.format('%.3f', now) .. ' ' .. record)
redis.call('EXPIRE', records, gone_seconds)
local found = {}
local all = redis.call('HGETALL', records)
for i = 1, #all, 2 do
    local at, text = string.match(all[i + 1], '^([^ ]+) (.*)$')
    local age = now - tonumber(at)
    if age > gone_seconds then
        redis.call('HDEL', records, all[i])
    else
        found[#found + 1] = {string.format('%.3f', age), text}
    end
end
return found
"""


class KnownReplicas:
    """The records of all replicas, or of this replica only if there is no Redis.

    Args:
        redis: The Redis that the replicas share.
        prefix: The prefix of the key in Redis.
        name: The name of this replica.
        state: Returns what the record of this replica says now.
    """

    def __init__(self, redis: "Redis | None", prefix: str, name: str, state: Callable[[], dict[str, Any]]) -> None:
        self._redis = redis
        self._key = f"{prefix}:console:replicas"
        self._identity = f"{name}:{secrets.token_hex(4)}"  # several replicas on one machine may have the same name
        self._state = state
        self._outage = Outage(logger, "the console shows one replica only")
        self._read: list[dict[str, Any]] = []
        self._read_at = 0.0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write the record of this replica every second inside the `async with` block, and remove it at the end."""
        if self._redis is None:
            yield
            return
        try:
            async with background_task(self._keep_writing()):
                yield
        finally:
            with self._outage.best_effort():
                await self._redis.hdel(self._key, self._identity)

    def all(self) -> list[dict[str, Any]]:
        """Return the records of all replicas. `seconds_ago` is the age of a record.

        While Redis cannot be reached, only this replica is known.
        """
        since = time.monotonic() - self._read_at
        found = [{**each, "seconds_ago": round(each["seconds_ago"] + since, 3)} for each in self._read]
        known = [each for each in found if each["seconds_ago"] <= _GONE_SECONDS]
        return known or [{**self._state(), "seconds_ago": 0.0}]

    async def _keep_writing(self) -> None:
        while True:
            found: list[dict[str, Any]] = []
            with self._outage.best_effort():
                found = await patiently(self._exchange())
            self._read, self._read_at = found, time.monotonic()
            await asyncio.sleep(_EVERY_SECONDS)

    async def _exchange(self) -> list[dict[str, Any]]:
        assert self._redis is not None  # noqa: S101
        found = await _Exchange(self._key, self._identity, json.dumps(self._state()), _GONE_SECONDS).run(self._redis)
        return [{**json.loads(each), "seconds_ago": float(age)} for age, each in found]
