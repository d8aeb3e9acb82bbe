"""The storage of FastMCP's auth providers, in the Redis that all replicas share.

Anybody can register a client. So each registration is small, and only a used one lasts.
"""

import json
import logging
import math
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsFloat

from fastmcp.server.auth import OAuthProvider
from key_value.aio.wrappers.base import BaseWrapper
from mcp.server.auth.provider import RegistrationError
from mcp.server.request_state import AESGCMRequestStateCodec, InvalidRequestState
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic_core import from_json

from anyreplica.features.login.limits import StoredBytes
from anyreplica.features.login.revocation import method_of
from anyreplica.features.login.shared import SharedLogins
from anyreplica.http.responses import encode
from anyreplica.settings.words import derived

if TYPE_CHECKING:
    from key_value.aio.protocols import AsyncKeyValue

logger = logging.getLogger(__name__)

MOST_METADATA_BYTES = 4096
"""Maximum size of the metadata of a registered client, in bytes."""
UNUSED_SECONDS = 3600
"""Time for which a registered client is stored before its first login."""
USED_SECONDS = 90 * 24 * 3600
"""Time for which a registered client is stored after its last login or refresh."""

Used = Callable[[OAuthClientInformationFull], Awaitable[None]]


def refuse_large_registrations(provider: OAuthProvider) -> None:
    """Refuse the registration of a client whose metadata has more than `MOST_METADATA_BYTES`."""
    original = method_of(provider, "register_client")

    async def register(client_info: OAuthClientInformationFull) -> None:
        size = len(client_info.model_dump_json(exclude_none=True).encode())
        if size > MOST_METADATA_BYTES:
            text = f"The metadata of the client has {size} bytes; the limit is {MOST_METADATA_BYTES}. Shorten its URLs."
            raise RegistrationError("invalid_client_metadata", text)
        await original(client_info)

    setattr(provider, "register_client", register)  # noqa: B010  # mypy refuses an assignment to a method


def note_logins(provider: OAuthProvider, used: Used) -> None:
    """Call `used` with the client after each login and each refresh. Call this after the other changes of a method."""
    for name in ("exchange_authorization_code", "exchange_refresh_token"):
        _note_use(provider, name, used)


def _note_use(provider: OAuthProvider, name: str, used: Used) -> None:
    method = getattr(provider, name)
    original = getattr(method, "__wrapped__", method)  # without `used` of an earlier app in this process

    @wraps(original)
    async def exchange(client: OAuthClientInformationFull, *arguments: Any) -> OAuthToken:
        tokens: OAuthToken = await original(client, *arguments)
        await used(client)
        return tokens

    setattr(provider, name, exchange)


Value = dict[str, Any]

_SWEEP_SECONDS = 600.0
"""Time between two searches for expired files."""


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
        sealed = await self._shared.reach(lambda: self._shared.redis.get(name))
        return self._opened(name, sealed) if isinstance(sealed, bytes) else None

    async def put(
        self, key: str, value: Mapping[str, Any], *, collection: str | None = None, ttl: SupportsFloat | None = None
    ) -> None:
        """Store a value. Without `ttl`, it expires after `UNUSED_SECONDS`: only registered clients have no `ttl`."""
        name = self._name(collection, key)
        seconds = UNUSED_SECONDS if ttl is None else max(1, math.ceil(float(ttl)))
        sealed = self._sealed(name, value)
        await self._stored.add(len(sealed))
        await self._shared.reach(lambda: self._shared.redis.set(name, sealed, ex=seconds))

    async def delete(self, key: str, *, collection: str | None = None) -> bool:
        """Remove a value. Return whether it was there."""
        name = self._name(collection, key)
        return bool(await self._shared.reach(lambda: self._shared.redis.delete(name), repeatable=False))

    async def ttl(self, key: str, *, collection: str | None = None) -> tuple[Value | None, float | None]:
        """Return a value and the time until it expires, in seconds."""
        value, name = await self.get(key, collection=collection), self._name(collection, key)
        left = await self._shared.reach(lambda: self._shared.redis.pttl(name))
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
        sealed = self._sealed(name, value)
        await self._shared.reach(lambda: self._shared.redis.set(name, sealed, ex=seconds, xx=True))

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


class LocalStorage(BaseWrapper):
    """A storage in which unused registrations expire, and expired files are removed.

    Args:
        storage: the storage of the provider.
        stored: the limit of stored bytes.
        folder: the folder of FastMCP's files, which FastMCP itself never removes. None: the storage has no such folder.
    """

    def __init__(self, storage: "AsyncKeyValue", stored: StoredBytes, folder: Path | None) -> None:
        self.key_value = storage
        self._stored = stored
        self._folder = folder
        self._swept = -_SWEEP_SECONDS
        super().__init__()

    async def put(
        self, key: str, value: Mapping[str, Any], *, collection: str | None = None, ttl: SupportsFloat | None = None
    ) -> None:
        """Store a value. Without `ttl`, it expires after `UNUSED_SECONDS`: only registered clients have no `ttl`."""
        self._sweep()
        await self._stored.add(len(encode(dict(value))))
        await self.key_value.put(key, value, collection=collection, ttl=UNUSED_SECONDS if ttl is None else ttl)

    put_many = LoginStorage.put_many  # it only calls `put`

    async def keep(self, key: str, collection: str, seconds: int) -> None:
        """Let a value expire `seconds` from now. A value that is missing stays missing."""
        value = await self.get(key, collection=collection)
        if value is not None:
            await self.put(key, value, collection=collection, ttl=seconds)

    def _sweep(self) -> None:
        now = time.monotonic()
        if self._folder is not None and now - self._swept >= _SWEEP_SECONDS:
            self._swept = now
            threading.Thread(target=remove_expired, args=(self._folder,), name="login files", daemon=True).start()


def remove_expired(folder: Path) -> None:
    """Remove the files of expired values from a folder of FastMCP: `<folder>/<collection>/<key>.json`."""
    now = datetime.now(UTC)
    for path in folder.glob("*/*.json"):
        with suppress(OSError, ValueError, TypeError, AttributeError):
            expires = json.loads(path.read_bytes()).get("expires_at")
            if expires is None:  # a registration of an earlier version of this package
                expired = time.time() - path.stat().st_mtime > USED_SECONDS
            else:
                expired = datetime.fromisoformat(expires) <= now
            if expired:
                path.unlink(missing_ok=True)
