"""The part of Redis in which the replicas share logins."""

import asyncio
import logging
import math
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyreplica.auth.caller import digest
from anyreplica.shared.lost_redis import translate_redis_errors
from anyreplica.shared.outage import Outage

if TYPE_CHECKING:
    from redis.asyncio import Redis

logger = logging.getLogger(__name__)

_LEASE_SECONDS = 6
"""Time after which the lock of a killed replica is free."""

_RENEW_SECONDS = 2.0

_POLL_SECONDS = 0.05

_PATIENCE_SECONDS = 45.0
"""Time limit for the wait. FastMCP waits for an identity provider for at most 30 seconds."""

_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"

_RENEW = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('EXPIRE', KEYS[1], ARGV[2]) end return 0"


class LoginUnavailable(OSError):
    """The replica cannot read or write the state of logins, because Redis cannot be reached."""


@dataclass
class RequestOutage:
    """Whether the current request could not reach Redis.

    FastMCP answers most errors of its storage as if a token or a client were unknown. A client would then throw its
    tokens away and start a new login. So a replica notes the loss of Redis, and answers HTTP 503 instead.
    """

    noted: bool = False


_CURRENT: ContextVar[RequestOutage | None] = ContextVar("login_outage", default=None)


@contextmanager
def noting_outages() -> Iterator[RequestOutage]:
    """Note inside the `with` block whether Redis could not be reached, even if FastMCP hides the error."""
    outage = RequestOutage()
    token = _CURRENT.set(outage)
    try:
        yield outage
    finally:
        _CURRENT.reset(token)


def _unavailable(reason: str) -> LoginUnavailable:
    """Note that the current request could not reach Redis, and return the error of its work."""
    if (outage := _CURRENT.get()) is not None:
        outage.noted = True
    return LoginUnavailable(reason)


class SharedLogins:
    """The client of Redis, with the names of the keys of logins. `name` is the name of the server."""

    def __init__(self, redis: "Redis", name: str) -> None:
        self.redis = redis
        self._prefix = f"{name}:login"
        self._outage = Outage(logger, "logins are refused")

    def key(self, kind: str, *parts: str) -> str:
        """Return the name of a key. It contains only a hash of `parts`, because they may be secret."""
        return f"{self._prefix}:{kind}:{digest(*parts)}"

    @contextmanager
    def reaching(self) -> Iterator[None]:
        """Raise `LoginUnavailable` if Redis cannot be reached inside the `with` block."""
        with self._outage.required(_unavailable):
            yield


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


class SingleUse:
    """Marks in Redis: used codes, used assertions and revoked tokens. Each mark expires.

    Each method raises `LoginUnavailable` if Redis cannot be reached. The request is then refused: without Redis, no
    replica knows whether another replica has accepted the same code.
    """

    def __init__(self, shared: SharedLogins) -> None:
        self._shared = shared

    async def claim(self, kind: str, *parts: str, until: float) -> bool:
        """Set a mark that lasts until a time, in seconds since the epoch. Return False if it is set already."""
        seconds = max(1, math.ceil(until - time.time()))
        with self._shared.reaching():
            return bool(await self._shared.redis.set(self._shared.key(kind, *parts), b"", nx=True, ex=seconds))

    async def is_taken(self, kind: str, *parts: str) -> bool:
        """Return whether a mark is set."""
        with self._shared.reaching():
            return bool(await self._shared.redis.exists(self._shared.key(kind, *parts)))
