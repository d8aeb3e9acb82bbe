"""The storage of FastMCP's auth providers in a single replica without Redis: FastMCP's own files or memory."""

import json
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsFloat

from key_value.aio.wrappers.base import BaseWrapper

from anyreplica.features.login.registration import UNUSED_SECONDS, USED_SECONDS
from anyreplica.features.login.stored_bytes import StoredBytes
from anyreplica.http.responses import encode

if TYPE_CHECKING:
    from key_value.aio.protocols import AsyncKeyValue

_SWEEP_SECONDS = 600.0
"""Time between two searches for expired files."""


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
