"""The keys that are good now, read again when their file changes."""

import asyncio
import hashlib
import logging
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_swarm.auth.caller import Caller
from mcp_swarm.auth.key import KeyEntry
from mcp_swarm.auth.key_file import KeyFileError, read
from mcp_swarm.process.meanwhile import meanwhile
from mcp_swarm.settings.rate import Rate
from mcp_swarm.signing.keypair import public_key

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.25
"""Between two looks at the file. A change counts when two looks in a row have seen it, since half of a file that is
just being written may be good to read, without the keys of its other half."""


@dataclass(frozen=True, slots=True)
class _Holder:
    """Who holds a key, if anybody, and from when to when it is good, in seconds since the epoch."""

    caller: Caller | None
    begins: float = 0
    ends: float = float("inf")
    public: "Ed25519PublicKey | None" = None


_NOBODY = _Holder(None)


class KeyRing:
    """Knows callers by their keys: the one in the settings (`AUTH_TOKEN`) and those of a file (`API_KEYS_FILE`).

    `otherwise` is the rate of callers that have none of their own.

    Raises:
        KeyFileError: the file can't be used.
    """

    def __init__(self, token: str | None, path: Path | None, otherwise: Rate) -> None:
        self._path = path
        self._otherwise = otherwise
        self._fixed: dict[bytes, _Holder] = {}
        if token is not None:
            digest = hashlib.sha256(token.encode()).digest()
            name = f"token:{digest.hex()[:16]}"
            self._fixed[digest] = _Holder(Caller(name, name, rate=otherwise))
        self._by_hash = self._fixed
        self._by_name: dict[str, _Holder] = {}
        self._read: tuple[int, int, int] | None = None
        if path is not None:
            self._read = _stamp(path)
            self._take(read(path))

    def caller(self, key: bytes) -> Caller | None:
        """Who shows a key; None if nobody has it, or its time isn't now.

        Looked up by its SHA-256, so that how long it takes tells nothing of how much of a key is right.
        """
        return _now(self._by_hash.get(hashlib.sha256(key).digest())).caller

    def signer(self, name: str) -> Caller | None:
        """Who signs under a key's id."""
        return _now(self._by_name.get(name)).caller

    def public_key(self, name: str) -> "Ed25519PublicKey | None":
        """By what the signatures under a key's id are checked."""
        return _now(self._by_name.get(name)).public

    def running(self) -> AbstractAsyncContextManager[None]:
        """Watch the file meanwhile."""
        return nullcontext() if self._path is None else meanwhile(self._watch(self._path))

    async def _watch(self, path: Path) -> None:
        seen = self._read
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            before, seen = seen, _stamp(path)
            if seen == before and seen != self._read:
                self._read = seen
                self._read_again(path)

    def _read_again(self, path: Path) -> None:
        try:
            entries = read(path)
        except KeyFileError as error:
            logger.error("The keys stay as they were, since %s", error)  # no traceback for an operator
            return
        before = set(self._by_name)
        self._take(entries)
        now = set(self._by_name)
        new, gone = (", ".join(sorted(names)) or "none" for names in (now - before, before - now))
        logger.warning("%s was read again: %d keys; new: %s; gone: %s", path, len(now), new, gone)

    def _take(self, entries: Sequence[KeyEntry]) -> None:
        holders = {entry.id: _holder(entry, self._otherwise) for entry in entries}
        hashes = {bytes.fromhex(entry.hash[7:]): holders[entry.id] for entry in entries if entry.hash}
        self._by_name = holders
        self._by_hash = {**hashes, **self._fixed}


def _now(holder: _Holder | None) -> _Holder:
    """The holder while its key is good, else nobody."""
    return holder if holder is not None and holder.begins <= time.time() < holder.ends else _NOBODY


def _holder(entry: KeyEntry, otherwise: Rate) -> _Holder:
    return _Holder(
        entry.caller(otherwise),
        entry.not_before.timestamp() if entry.not_before else 0,
        entry.expires.timestamp() if entry.expires else float("inf"),
        public_key(entry.public_key) if entry.public_key else None,
    )


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()  # follows links, as secrets' and config maps' are
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
