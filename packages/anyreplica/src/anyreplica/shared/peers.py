"""The number of replicas.

`MCP_REPLICAS` sets the planned number. `docker service scale` does not change this setting, so a replica also
counts the running replicas. With `REDIS_URL`, each replica writes a sign of life to Redis and counts these signs. With
`REPLICAS_DNS`, a replica counts the addresses of a DNS name. Each process of a replica (`WORKERS`) counts as one.
"""

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from anyreplica.process.event_loop import background_task
from anyreplica.settings import CoreSettings
from anyreplica.shared.lost_redis import patiently, translate_redis_errors
from anyreplica.shared.script import RedisKey, Script

if TYPE_CHECKING:
    from redis.asyncio import Redis


_Address = tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]

_POLL_SECONDS = 2.0
_GONE_SECONDS = 10.0
"""Age in seconds after which the last sign of life of a replica no longer counts."""
_ANY_PORT = 9


class _ShowLife(Script[int]):
    """Writes a sign of life, and returns the number of replicas with a recent one, by the clock of Redis."""

    signs: RedisKey
    replica: str
    gone_seconds: float

    lua = """
local now = redis.call('TIME')
now = now[1] + now[2] / 1000000
redis.call('ZADD', signs, now, replica)
redis.call('ZREMRANGEBYSCORE', signs, '-inf', now - gone_seconds)
redis.call('EXPIRE', signs, math.ceil(gone_seconds))
return redis.call('ZCARD', signs)
"""


class Peers:
    """The replicas of this server, including this one. `planned` is the planned number of replicas.

    `count_replicas` returns the number of running replicas, and raises OSError if it cannot find out. Without it,
    `count` stays at the planned number. `sign_off` is called at the end.
    """

    def __init__(
        self,
        planned: int,
        count_replicas: Callable[[], Awaitable[int]] | None = None,
        sign_off: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.planned = planned
        self.count = planned
        """Number of running replicas; the planned number before the first count."""
        self._count_replicas = count_replicas
        self._sign_off = sign_off

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Count the replicas every two seconds while the context is open. The first count comes before any request."""
        if self._count_replicas is None:
            yield
            return
        await self._count()
        try:
            async with background_task(self._count_again()):
                yield
        finally:
            if self._sign_off is not None:
                await self._sign_off()

    async def _count_again(self) -> None:
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            await patiently(self._count())

    async def _count(self) -> None:
        assert self._count_replicas is not None  # noqa: S101
        with suppress(OSError):  # keep the last known number
            self.count = max(1, await self._count_replicas())


def peers(settings: CoreSettings, redis: "Redis | None", replica: str) -> Peers:
    """Return the `Peers` that the settings describe."""
    if redis is not None:
        return Peers(settings.planned, *_by_signs(redis, f"{settings.mcp_name}:replicas", replica))
    if settings.replicas_dns:
        return Peers(settings.planned, _by_name(settings.replicas_dns, settings.workers))
    return Peers(settings.planned)


def _by_signs(
    redis: "Redis", key: str, replica: str
) -> tuple[Callable[[], Awaitable[int]], Callable[[], Awaitable[None]]]:
    # Several replicas on one machine may have the same name.
    own = f"{replica}:{secrets.token_hex(4)}"

    async def count_replicas() -> int:
        return await _ShowLife(key, own, _GONE_SECONDS).run(redis)

    async def sign_off() -> None:
        with suppress(OSError), translate_redis_errors():
            await redis.zrem(key, own)

    return count_replicas, sign_off


def _by_name(name: str, workers: int) -> Callable[[], Awaitable[int]]:
    async def count_replicas() -> int:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(name, _ANY_PORT, type=socket.SOCK_DGRAM)
        # In a network with IPv4 and IPv6, each replica has an address of each.
        families = {family for family, *_ in found}
        counts = [_counted(family, {each[4] for each in found if each[0] == family}) for family in families]
        return max(counts) * workers  # the processes of a replica share its address

    return count_replicas


def _counted(family: int, addresses: Collection[_Address]) -> int:
    # Swarm's DNS lists a replica only when it is healthy. Before that, this replica counts itself.
    return len(addresses) + (not any(_is_own(family, address) for address in addresses))


def _is_own(family: int, address: _Address) -> bool:
    """Return whether an address belongs to this machine. The function sends nothing.

    A packet to an own address would have the same address as its source.
    """
    with socket.socket(family, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect(address)
        return bool(probe.getsockname()[0] == address[0])
    return False
