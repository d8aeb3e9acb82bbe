"""The storage of FastMCP's auth providers, in the Redis that all replicas share."""

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat

from mcp.server.request_state import AESGCMRequestStateCodec, InvalidRequestState
from pydantic_core import from_json

from anyreplica.features.login.registration import UNUSED_SECONDS
from anyreplica.features.login.shared import SharedLogins
from anyreplica.features.login.stored_bytes import StoredBytes
from anyreplica.http.responses import encode
from anyreplica.settings.keys import derived

logger = logging.getLogger(__name__)

Value = dict[str, Any]


class LoginStorage:
    """A store of key-value-aio (`AsyncKeyValue`) that encrypts its values.

    A value is valid only under its own key, so nobody with write access to Redis can put one user's tokens in the place
    of another user's tokens.

    Args:
        shared: the Redis.
        keys: REQUEST_STATE_KEYS. The first key encrypts, and every key decrypts.
    """

    def __init__(self, shared: SharedLogins, keys: Sequence[str]) -> None:
        self._shared = shared
        self._stored = StoredBytes(shared)
        self._codec = AESGCMRequestStateCodec(derived(keys, "login storage"))

    async def get(self, key: str, *, collection: str | None = None) -> Value | None:
        """Return a value, or None. Raise `LoginUnavailable` if Redis cannot be reached."""
        name = self._name(collection, key)
        with self._shared.reaching():
            sealed = await self._shared.redis.get(name)
        return self._opened(name, sealed) if isinstance(sealed, bytes) else None

    async def put(
        self, key: str, value: Mapping[str, Any], *, collection: str | None = None, ttl: SupportsFloat | None = None
    ) -> None:
        """Store a value. Without `ttl`, it expires after `UNUSED_SECONDS`: only registered clients have no `ttl`."""
        name = self._name(collection, key)
        seconds = UNUSED_SECONDS if ttl is None else max(1, math.ceil(float(ttl)))
        sealed = self._sealed(name, value)
        await self._stored.add(len(sealed))
        with self._shared.reaching():
            await self._shared.redis.set(name, sealed, ex=seconds)

    async def delete(self, key: str, *, collection: str | None = None) -> bool:
        """Remove a value. Return whether it was there."""
        with self._shared.reaching():
            return bool(await self._shared.redis.delete(self._name(collection, key)))

    async def ttl(self, key: str, *, collection: str | None = None) -> tuple[Value | None, float | None]:
        """Return a value and the time until it expires, in seconds."""
        value = await self.get(key, collection=collection)
        with self._shared.reaching():
            left = await self._shared.redis.pttl(self._name(collection, key))
        return (value, left / 1000) if value is not None and left > 0 else (None, None)

    async def get_many(self, keys: Sequence[str], *, collection: str | None = None) -> list[Value | None]:
        """Return a value for each key, or None."""
        return [await self.get(key, collection=collection) for key in keys]

    async def ttl_many(
        self, keys: Sequence[str], *, collection: str | None = None
    ) -> list[tuple[Value | None, float | None]]:
        """Return a value and its time for each key."""
        return [await self.ttl(key, collection=collection) for key in keys]

    async def put_many(
        self,
        keys: Sequence[str],
        values: Sequence[Mapping[str, Any]],
        *,
        collection: str | None = None,
        ttl: SupportsFloat | None = None,
    ) -> None:
        """Store a value for each key."""
        for key, value in zip(keys, values, strict=True):
            await self.put(key, value, collection=collection, ttl=ttl)

    async def delete_many(self, keys: Sequence[str], *, collection: str | None = None) -> int:
        """Remove the values of some keys. Return how many of them were there."""
        return sum([await self.delete(key, collection=collection) for key in keys])

    async def keep(self, key: str, collection: str, seconds: int) -> None:
        """Let a value expire `seconds` from now, and encrypt it with the first key, so that old keys can be removed.

        A value that is missing stays missing.
        """
        value = await self.get(key, collection=collection)
        if value is None:
            return
        name = self._name(collection, key)
        with self._shared.reaching():
            await self._shared.redis.set(name, self._sealed(name, value), ex=seconds, xx=True)

    def _name(self, collection: str | None, key: str) -> str:
        return self._shared.key("state", collection or "", key)

    def _sealed(self, name: str, value: Mapping[str, Any]) -> str:
        return self._codec.seal(encode([name, dict(value)]))

    def _opened(self, name: str, sealed: bytes) -> Value | None:
        try:
            written, value = from_json(self._codec.unseal(sealed.decode("ascii", "replace")))
        except (InvalidRequestState, ValueError):
            logger.warning("A value of a login in Redis is not readable with REQUEST_STATE_KEYS; it counts as missing")
            return None
        return value if written == name and isinstance(value, dict) else None
