"""The API keys that are valid now. A key ring reloads them when their file changes."""

import asyncio
import hashlib
import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from anyreplica.auth.caller import Caller
from anyreplica.features.keys.key import KeyEntry, KeyFileError, read
from anyreplica.process.tasks import background_task
from anyreplica.settings.rate import Rate
from anyreplica.signing.keypair import public_key

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.25
"""Time between two checks of the file. The key ring reloads the file when two checks in a row find the same change: a
program may still be writing the file, and the first half alone may be a valid file without the other keys."""

_LONGEST_KNOWN = 256
"""Maximum length of a key whose hash is remembered, in bytes. A client may send a key as long as a request head."""


@dataclass(frozen=True, slots=True)
class _Holder:
    """The caller of a key, if any, and the times between which the key is valid, in seconds since the epoch."""

    caller: Caller | None
    begins: float = 0
    ends: float = float("inf")
    public: "Ed25519PublicKey | None" = None

    @property
    def is_valid(self) -> bool:
        """Whether the key is valid now."""
        return self.begins <= time.time() < self.ends


_NOBODY = _Holder(None)


class KeyRing:
    """The valid keys and their callers: the key in the settings (`AUTH_TOKEN`) and the keys in `API_KEYS_FILE`.

    `default` is the rate limit of a caller if the file sets none for this caller.

    Raises:
        KeyFileError: the file is not valid.
    """

    def __init__(self, token: str | None, path: Path | None, default: Rate) -> None:
        self._path = path
        self._default = default
        self._fixed: dict[bytes, _Holder] = {}
        if token is not None:
            digest = hashlib.sha256(token.encode()).digest()
            name = f"token:{digest.hex()[:16]}"
            self._fixed[digest] = _Holder(Caller(name, name, rate=default))
        self._by_hash = self._fixed
        self._by_name: dict[str, _Holder] = {}
        self._read: tuple[int, int, int] | None = None
        if path is not None:
            self._read = _stamp(path)
            self._take(read(path))

    def caller(self, key: bytes) -> Caller | None:
        """Return the caller of a key, or None if no caller has this key or the key is not valid now.

        The search uses the SHA-256 of the key. So the duration of the search does not reveal how much of a key is
        right.
        """
        holder = self._by_hash.get(_digest(key) if len(key) <= _LONGEST_KNOWN else _digest.__wrapped__(key))
        return holder.caller if holder is not None and holder.is_valid else None

    def signer(self, name: str) -> Caller | None:
        """Return the caller that signs with the key of this id, or None if there is no valid key."""
        return _now(self._by_name.get(name)).caller

    def public_key(self, name: str) -> "Ed25519PublicKey | None":
        """Return the public key for the signatures of this key id, or None if there is no valid key."""
        return _now(self._by_name.get(name)).public

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Watch the file and reload it on changes, while the context is open."""
        async with nullcontext() if self._path is None else background_task(self._watch(self._path)):
            yield

    async def _watch(self, path: Path) -> None:
        seen = self._read
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            before, seen = seen, _stamp(path)
            if seen == before and seen != self._read:
                self._read = seen
                self._read_again(path)

    def _read_again(self, path: Path) -> None:
        try:
            entries = read(path)
        except KeyFileError as error:
            logger.error("API keys not reloaded; the previous keys stay valid: %s", error)  # without a traceback
            return
        before = set(self._by_name)
        self._take(entries)
        now = set(self._by_name)
        added, removed = (", ".join(sorted(names)) or "none" for names in (now - before, before - now))
        logger.warning("API keys reloaded from %s: %d keys; added: %s; removed: %s", path, len(now), added, removed)

    def _take(self, entries: Sequence[KeyEntry]) -> None:
        holders = {entry.id: _holder(entry, self._default) for entry in entries}
        hashes = {bytes.fromhex(entry.hash[7:]): holders[entry.id] for entry in entries if entry.hash}
        self._by_name = holders
        self._by_hash = {**hashes, **self._fixed}


@lru_cache(maxsize=1024)
def _digest(key: bytes) -> bytes:
    """Return the SHA-256 of a key. Most requests have a key that was in an earlier one."""
    return hashlib.sha256(key).digest()


def _now(holder: _Holder | None) -> _Holder:
    """Return the holder if its key is valid now, else `_NOBODY`."""
    return holder if holder is not None and holder.is_valid else _NOBODY


def _holder(entry: KeyEntry, default: Rate) -> _Holder:
    return _Holder(
        entry.caller(default),
        entry.not_before.timestamp() if entry.not_before else 0,
        entry.expires.timestamp() if entry.expires else float("inf"),
        public_key(entry.public_key) if entry.public_key else None,
    )


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()  # follows symbolic links, which Kubernetes uses for secrets and config maps
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
