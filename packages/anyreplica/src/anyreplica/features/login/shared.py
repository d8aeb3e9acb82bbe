"""The part of Redis in which the replicas share logins.

A request to a route of a login waits for a slow Redis, because it belongs to a person who waits anyway: its commands
are patient, see `anyreplica.shared.lost_redis`. The check of a token belongs to a call, so its commands are quick.
"""

import asyncio
import logging
import math
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from anyreplica.auth.caller import digest
from anyreplica.http.limits import Shares
from anyreplica.shared.lost_redis import PERSIST_SECONDS, patiently, retry_for, translate_redis_errors
from anyreplica.shared.outage import Outage
from anyreplica.shared.script import RedisKey, Script

if TYPE_CHECKING:
    from redis.asyncio import Redis

T = TypeVar("T")

logger = logging.getLogger(__name__)

MOST_WAITING = 32
"""Maximum number of patient commands of logins in a replica at the same time. This is half of the connections for
patient commands: calls in sessions use the others. Further commands are quick. One address has half of them."""

_WAITING_SECONDS = 60.0
"""Time for which the commands of one request are patient, in seconds. The longest request, for a token, sends about 20
commands."""

_LEASE_SECONDS = 12
"""Time after which the lock of a killed replica is free. A slow Redis must answer two renewals in this time."""

_RENEW_SECONDS = 2.0

_POLL_SECONDS = 0.05

_PATIENCE_SECONDS = 45.0
"""Time limit for the wait. FastMCP waits for an identity provider for at most 30 seconds."""


class LoginUnavailable(OSError):
    """The replica cannot read or write the state of logins, because Redis cannot be reached."""


@dataclass
class RequestOutage:
    """Whether the current request could not reach Redis, and whether its commands are patient.

    FastMCP answers most errors of its storage as if a token or a client were unknown. A client would then throw its
    tokens away and start a new login. So a replica notes the loss of Redis, and answers HTTP 503 instead.

    Attributes:
        address: the address of the client of a patient request. None: the request is not patient.
        noted: whether Redis could not be reached.
        seconds: time for which the next commands of the request are patient, in seconds.
    """

    address: str | None = None
    noted: bool = False
    seconds: float = _WAITING_SECONDS

    @property
    def is_patient(self) -> bool:
        """Whether the next command is patient."""
        return self.address is not None and not self.noted and self.seconds > 0


_CURRENT: ContextVar[RequestOutage | None] = ContextVar("login_outage", default=None)


@contextmanager
def noting_outages(address: str | None = None) -> Iterator[RequestOutage]:
    """Note inside the `with` block whether Redis could not be reached, even if FastMCP hides the error.

    Args:
        address: the address of a client that waits for a slow Redis. None: the commands of the block are quick.
    """
    outage = RequestOutage(address)
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
    """The client of Redis, with the names of the keys of logins.

    Args:
        name: the name of the server.
        most_waiting: maximum number of patient commands at the same time.
    """

    def __init__(self, redis: "Redis", name: str, most_waiting: int = MOST_WAITING) -> None:
        self.redis = redis
        self._waiting = Shares(most_waiting)
        self._prefix = f"{name}:login"
        self._outage = Outage(logger, "logins are refused")

    def key(self, kind: str, *parts: str) -> str:
        """Return the name of a key. It contains only a hash of `parts`, because they may be secret."""
        return f"{self._prefix}:{kind}:{digest(*parts)}"

    async def reach(self, command: Callable[[], Awaitable[T]], *, repeatable: bool = True) -> T:
        """Send a command to Redis and return its result.

        After a command of a request that failed, its other commands fail at once: the request gets HTTP 503 anyway.

        Args:
            command: the command.
            repeatable: whether the command may be sent again if its answer is lost.

        Raises:
            LoginUnavailable: Redis cannot be reached.
        """
        request = _CURRENT.get()
        with self._outage.required(_unavailable):
            if request is not None and request.noted:
                raise OSError("no answer to an earlier command of the request")
            if request is None or not request.is_patient or self._waiting.room(request.address or "") <= 0:
                return await command()
            return await self._wait_for(command, request, repeatable=repeatable)

    async def attempt(self, command: Callable[[], Awaitable[object]]) -> None:
        """Send a command to Redis whose failure does not matter to the request."""
        request = _CURRENT.get()
        with suppress(OSError), translate_redis_errors():
            await (patiently(command()) if request is not None and request.is_patient else command())

    async def _wait_for(self, command: Callable[[], Awaitable[T]], request: RequestOutage, *, repeatable: bool) -> T:
        async def send() -> T:
            with translate_redis_errors():
                return await command()

        address, seconds = request.address or "", min(request.seconds, PERSIST_SECONDS)
        self._waiting.add(address, 1)
        began = time.monotonic()
        try:
            if repeatable:
                return await retry_for(send, seconds)
            async with asyncio.timeout(seconds):
                return await patiently(send())
        finally:
            request.seconds -= time.monotonic() - began
            self._waiting.add(address, -1)


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
        # Without Redis, the lease ends by itself.
        await self._shared.attempt(lambda: _Release(self._key, self._token).run(self._shared.redis))

    async def _set(self) -> bool:
        redis, seconds, asked = self._shared.redis, self._lease_seconds, time.monotonic()
        taken = await self._shared.reach(
            lambda: redis.set(self._key, self._token, nx=True, ex=seconds), repeatable=False
        )
        if taken and time.monotonic() - asked > self._renew_seconds:
            # A slow Redis may have set the lock long before its answer came: the lock may have ended again.
            taken = await self._shared.reach(self._renewed)
        return bool(taken)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._renew_seconds)
            # Do not fail the request: it may have finished its work.
            await self._shared.attempt(self._renewed)

    async def _renewed(self) -> bool:
        """Renew the lease. Return False if the lock has another owner or none."""
        return await _Renew(self._key, self._token, self._lease_seconds).run(self._shared.redis) == 1


class _Release(Script[int]):
    """Deletes a lock, if it still has this owner."""

    lock: RedisKey
    token: str

    lua = """
if redis.call('GET', lock) == token then return redis.call('DEL', lock) end
return 0
"""


class _Renew(Script[int]):
    """Renews the lease of a lock, if it still has this owner. Returns 1, or 0 if it has another owner or none."""

    lock: RedisKey
    token: str
    seconds: int

    lua = """
if redis.call('GET', lock) == token then return redis.call('EXPIRE', lock, seconds) end
return 0
"""


class SingleUse:
    """Marks in Redis: used codes, used assertions and revoked tokens. Each mark expires.

    Each method raises `LoginUnavailable` if Redis cannot be reached. The request is then refused: without Redis, no
    replica knows whether another replica has accepted the same code.
    """

    def __init__(self, shared: SharedLogins) -> None:
        self._shared = shared

    async def claim(self, kind: str, *parts: str, until: float) -> bool:
        """Set a mark that lasts until a time, in seconds since the epoch. Return False if it is set already."""
        redis, key, seconds = self._shared.redis, self._shared.key(kind, *parts), max(1, math.ceil(until - time.time()))
        return bool(await self._shared.reach(lambda: redis.set(key, b"", nx=True, ex=seconds), repeatable=False))

    async def is_claimed(self, kind: str, *parts: str) -> bool:
        """Return whether a mark is set."""
        key = self._shared.key(kind, *parts)
        return bool(await self._shared.reach(lambda: self._shared.redis.exists(key)))
