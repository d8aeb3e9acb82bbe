"""A lock that only one request of all replicas holds."""

import asyncio
import secrets
from contextlib import suppress

from anyreplica.features.login.outage import LoginUnavailable
from anyreplica.features.login.shared import SharedLogins
from anyreplica.shared.lost_redis import translate_redis_errors

_LEASE_SECONDS = 6
"""Time after which the lock of a killed replica is free."""
_RENEW_SECONDS = 2.0
_POLL_SECONDS = 0.05
_PATIENCE_SECONDS = 45.0
"""Time limit for the wait. FastMCP waits for an identity provider for at most 30 seconds."""

_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
_RENEW = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('EXPIRE', KEYS[1], ARGV[2]) end return 0"


class SharedLock:
    """A lock for one `async with` block. Other requests of all replicas wait until the block ends.

    This class does not use `contextlib`: the SDK's TokenError is a frozen dataclass, and `contextlib` fails when it
    sets the traceback of such an error.

    Args:
        lease_seconds: time after which the lock of a killed replica is free, in seconds.
        renew_seconds: pause between two renewals of the lease, in seconds.
        patience_seconds: time limit for waiting for the lock, in seconds.
    """

    def __init__(
        self,
        shared: SharedLogins,
        kind: str,
        *parts: str,
        lease_seconds: int = _LEASE_SECONDS,
        renew_seconds: float = _RENEW_SECONDS,
        patience_seconds: float = _PATIENCE_SECONDS,
    ) -> None:
        self._shared = shared
        self._key = shared.key(kind, *parts)
        self._token = secrets.token_hex(16)
        self._renewal: asyncio.Task[None] | None = None
        self._lease_seconds = lease_seconds
        self._renew_seconds = renew_seconds
        self._patience_seconds = patience_seconds

    async def __aenter__(self) -> None:
        """Take the lock.

        Raises:
            LoginUnavailable: Redis cannot be reached, or the lock does not become free in time.
        """
        try:
            async with asyncio.timeout(self._patience_seconds):
                while not await self._set():  # noqa: ASYNC110  # another process holds the lock
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise LoginUnavailable("another request holds the lock of this login") from None
        self._renewal = asyncio.create_task(self._renew())

    async def __aexit__(self, *_: object) -> None:
        """Release the lock."""
        if self._renewal is not None:
            self._renewal.cancel()
        with suppress(OSError), translate_redis_errors():  # without Redis, the lease ends by itself
            await self._shared.redis.eval(_RELEASE, 1, self._key, self._token)

    async def _set(self) -> bool:
        with self._shared.reaching():
            return bool(await self._shared.redis.set(self._key, self._token, nx=True, ex=self._lease_seconds))

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._renew_seconds)
            with suppress(OSError), translate_redis_errors():  # no outage of the request: its work may already be done
                await self._shared.redis.eval(_RENEW, 1, self._key, self._token, str(self._lease_seconds))
