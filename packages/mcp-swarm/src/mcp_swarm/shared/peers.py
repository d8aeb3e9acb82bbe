"""How many replicas there are: what a single replica may offer alone, several must share.

`MCP_REPLICAS` says how many are meant to be. `docker service scale` doesn't change it, so a replica also looks: with
`REDIS_URL` each replica leaves a sign of life in Redis, and with `REPLICAS_DNS` each counts the addresses of a name.
"""

import asyncio
import logging
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from mcp_swarm.process.meanwhile import meanwhile
from mcp_swarm.settings import Settings

if TYPE_CHECKING:
    from redis.asyncio import Redis

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 2.0
_GONE_SECONDS = 10.0
"""A replica that has left no sign of life for so long doesn't count."""
_ANY_PORT = 9
_LOOKS = 2
"""Looks that must agree: an update has one replica more for a moment."""

_SIGN = """
local now = redis.call('TIME')
now = now[1] + now[2] / 1000000
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
redis.call('EXPIRE', KEYS[1], math.ceil(ARGV[2]))
return redis.call('ZCARD', KEYS[1])
"""
"""Leaves a sign of life of a replica; answered by how many replicas have done so lately. Time is Redis's own."""


class Peers:
    """The replicas of this server, this one included; `meant` is how many there are to be.

    `look` counts them, if there is anything to look at, and may raise OSError while it can't tell. `leave` is called at
    the end.
    """

    def __init__(
        self,
        meant: int,
        look: Callable[[], Awaitable[int]] | None = None,
        leave: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.meant = meant
        self.count = meant
        """How many there are; as many as are meant to be until somebody has looked."""
        self.alone = meant == 1
        """Whether this is the only replica, and is meant to be."""
        self.on_change: list[Callable[[], None]] = []
        """Called when this replica is alone no more, or alone again."""
        self._look = look
        self._leave = leave
        self._agreeing = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Look every few seconds meanwhile, for the first time before anything is served."""
        if self._look is None:
            yield
            return
        await self._count(looks=1)
        try:
            async with meanwhile(self._keep_looking()):
                yield
        finally:
            if self._leave is not None:
                await self._leave()

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            await self._count(_LOOKS)

    async def _count(self, looks: int) -> None:
        assert self._look is not None  # noqa: S101
        try:
            seen = await self._look()
        except OSError:  # what was true may be so still
            return
        self.count = max(1, seen)
        alone = self.meant == 1 and self.count == 1
        self._agreeing = self._agreeing + 1 if alone != self.alone else 0
        if self._agreeing >= looks:
            self.alone, self._agreeing = alone, 0
            for told in self.on_change:
                told()


def peers(settings: Settings, redis: "Redis | None", replica: str) -> Peers:
    """What tells how many replicas there are, by the settings."""
    if redis is not None:
        return Peers(settings.mcp_replicas, *_by_signs(redis, f"{settings.mcp_name}:replicas", replica))
    if settings.replicas_dns:
        return Peers(settings.mcp_replicas, _by_name(settings.replicas_dns))
    return Peers(settings.mcp_replicas)


def _by_signs(
    redis: "Redis", key: str, replica: str
) -> tuple[Callable[[], Awaitable[int]], Callable[[], Awaitable[None]]]:
    from redis.exceptions import RedisError  # noqa: PLC0415  # there is a client, so it is imported

    sign = redis.register_script(_SIGN)
    # Several replicas of one machine may have the same name.
    own = f"{replica}:{secrets.token_hex(4)}"

    async def look() -> int:
        try:
            return int(await sign(keys=[key], args=[own, _GONE_SECONDS]))
        except RedisError as error:
            raise OSError(str(error)) from None

    async def leave() -> None:
        with suppress(RedisError, OSError):
            await redis.zrem(key, own)

    return look, leave


def _by_name(name: str) -> Callable[[], Awaitable[int]]:
    async def look() -> int:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(name, _ANY_PORT, type=socket.SOCK_DGRAM)
        addresses = {(family, address) for family, _, _, _, address in found}
        # Swarm's DNS names a replica only once it is healthy; until then this one counts itself.
        return len(addresses) + (not any(_is_own(family, address) for family, address in addresses))

    return look


def _is_own(family: int, address: tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]) -> bool:
    """Whether an address is this machine's: it would send from there to there. Nothing is sent."""
    with socket.socket(family, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect(address)
        return bool(probe.getsockname()[0] == address[0])
    return False
