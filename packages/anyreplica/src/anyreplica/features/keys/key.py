"""API keys: new keys, the entries of the key file, and the keys that are valid now (`KeyRing`).

An entry never contains the key itself. A key ring reloads the file when it changes.
"""

import asyncio
import hashlib
import json
import logging
import re
import secrets
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from anyreplica.auth.caller import Caller
from anyreplica.process.event_loop import background_task
from anyreplica.settings.rate import Rate, parse
from anyreplica.signing.keypair import public_key

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

logger = logging.getLogger(__name__)

PREFIX = "mcp_"
"""Prefix of every new key. Scanners for leaked secrets find keys by this prefix."""

LEAST = 32
"""Minimum number of characters in a key. A hash does not protect a key that is easy to guess, and a slow hash would
cost time on every call."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

_HASH = re.compile(r"sha256:[0-9a-f]{64}")

_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
"""A scope (RFC 6749, appendix A.4)."""

POLL_SECONDS = 0.25
"""Time between two checks of the file. The key ring reloads the file when two checks in a row find the same change: a
program may still be writing the file, and the first half alone may be a valid file without the other keys."""

_LONGEST_KNOWN = 256
"""Maximum length of a key whose hash is remembered, in bytes. A client may send a key as long as a request head."""


def new_key() -> str:
    """Return a new key of 256 random bits."""
    return PREFIX + secrets.token_urlsafe(32)


def hash_of(key: str) -> str:
    """Return the hash that the key file contains instead of the key."""
    return "sha256:" + hashlib.sha256(key.encode()).hexdigest()


class KeyEntry(BaseModel):
    """An entry of the key file: one line."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    id: str
    hash: str | None = None
    public_key: str | None = None
    """Public key of a caller that signs its requests."""
    owner: str | None = None
    """Owner of the jobs that the caller creates and may see. Keys of one tenant share an owner. None: the key's id."""
    scopes: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """The caller's scopes. The value may be a list, as in `tools`, because JSON has no tuples."""
    tools: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(strict=False)] | None = None
    rate: str | None = None
    """Rate limit of the caller, such as `100/s`. None: RATE_LIMIT."""
    burst: Annotated[float, Field(ge=1, allow_inf_nan=False)] | None = None
    concurrent: Annotated[int, Field(ge=1)] | None = None
    not_before: datetime | None = None
    expires: datetime | None = None
    note: str = ""

    @field_validator("id", "owner")
    @classmethod
    def _name(cls, value: str | None) -> str | None:
        if value is not None and not _NAME.fullmatch(value):
            raise ValueError("must be 1 to 64 letters, digits, '.', '_' or '-'; the first must be a letter or a digit")
        return value

    @field_validator("not_before", "expires", mode="before")
    @classmethod
    def _time(cls, value: Any) -> Any:
        time = datetime.fromisoformat(value) if isinstance(value, str) else value
        if isinstance(time, datetime) and time.tzinfo is None:
            raise ValueError("has no time zone; write it like 2026-12-31T00:00:00Z")
        return time

    @field_validator("hash")
    @classmethod
    def _hashed(cls, value: str | None) -> str | None:
        if value is not None and not _HASH.fullmatch(value):
            raise ValueError("must be sha256: and 64 hexadecimal digits; anyreplica keys hash prints the hash of a key")
        return value

    @field_validator("rate")
    @classmethod
    def _rate(cls, value: str | None) -> str | None:
        if value is not None:
            parse(value)
        return value

    @field_validator("scopes")
    @classmethod
    def _scopes(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for scope in value:
            if not _SCOPE.fullmatch(scope):
                raise ValueError(f"{scope!r} is not a scope; use visible ASCII characters, no quotes or backslashes")
        return value

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.hash is None and self.public_key is None:
            raise ValueError("has neither hash nor public_key; add one of them")
        if self.not_before and self.expires and self.not_before >= self.expires:
            raise ValueError("expires must be later than not_before")
        return self

    def rated(self, default: Rate) -> Rate:
        """Return the rate limit of this key. Values that the entry does not set come from `default`.

        But if the entry sets a rate and no burst, the burst follows from this rate.
        """
        own = default if self.rate is None else parse(self.rate).replace(concurrent=default.concurrent)
        return own.replace(self.burst, self.concurrent)

    def state(self, now: datetime) -> str:
        """Return the state of the key: `valid`, `expired` or `not yet valid`."""
        if self.expires and now >= self.expires:
            return "expired"
        return "not yet valid" if self.not_before and now < self.not_before else "valid"

    def caller(self, default: Rate) -> Caller:
        """Return the caller that this key identifies."""
        rate = self.rated(default)
        name, owner = f"key:{self.id}", f"key:{self.owner or self.id}"
        return Caller(name, name, owner=owner, scopes=self.scopes, tools=self.tools, rate=rate)


def problem_of(error: ValidationError) -> str:
    """Return what is wrong with an entry, without its content: a user may have written a key there by mistake."""
    problem = error.errors(include_input=False, include_url=False)[0]
    if problem["type"] == "extra_forbidden":
        return f"has an unknown field; the fields are {', '.join(KeyEntry.model_fields)}"
    text = str(problem["msg"]).removeprefix("Value error, ")
    return f"{problem['loc'][0]}: {text[:1].lower()}{text[1:]}" if problem["loc"] else text


def now() -> datetime:
    """Return the current time in UTC, which decides whether a key is valid."""
    return datetime.now(UTC)


class KeyFileError(Exception):
    """An error in the key file. `str()` names the file, the line and what to do, and contains no part of a key."""


def read(path: Path) -> list[KeyEntry]:
    """Return the keys of a file, at least one.

    Raises:
        KeyFileError: the file cannot be read, has no key, has a line that is not a key, or has two equal keys.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise KeyFileError(f"{path} cannot be read: {reason}") from None
    entries = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                entries.append(_entry(line))
            except ValueError as error:
                raise KeyFileError(f"{path}, line {number}: {error}") from None
    if not entries:
        raise KeyFileError(f"{path} contains no key; run anyreplica keys new to make one")
    for kind in ("id", "hash", "public_key"):
        of_value: dict[str, list[str]] = defaultdict(list)
        for entry in entries:
            of_value[getattr(entry, kind) or ""].append(entry.id)
        of_value.pop("", None)
        for names in of_value.values():
            if len(names) > 1:
                raise KeyFileError(f"{path}: two keys have the same {kind}: {' and '.join(names[:2])}")
    return entries


def _entry(line: str) -> KeyEntry:
    """Read a line. A `ValueError` does not contain the line, because a user may have written a key there by mistake."""
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("not a JSON object; anyreplica keys new prints a valid line") from None
    try:
        entry = KeyEntry.model_validate(values)
        if entry.public_key is not None:
            public_key(entry.public_key)
    except ValidationError as error:
        raise ValueError(problem_of(error)) from None
    return entry


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
            self._use(read(path))

    def caller(self, key: bytes) -> Caller | None:
        """Return the caller of a key, or None if no caller has this key or the key is not valid now.

        The search uses the SHA-256 of the key. So the duration of the search does not reveal how much of a key is
        right.
        """
        holder = self._by_hash.get(_digest(key) if len(key) <= _LONGEST_KNOWN else _digest.__wrapped__(key))
        return holder.caller if holder is not None and holder.is_valid else None

    def signer(self, name: str) -> Caller | None:
        """Return the caller that signs with the key of this id, or None if there is no valid key."""
        return _valid(self._by_name.get(name)).caller

    def public_key(self, name: str) -> "Ed25519PublicKey | None":
        """Return the public key for the signatures of this key id, or None if there is no valid key."""
        return _valid(self._by_name.get(name)).public

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Watch the file and reload it on changes, while the context is open."""
        async with nullcontext() if self._path is None else background_task(self._watch(self._path)):
            yield

    async def _watch(self, path: Path) -> None:
        seen = self._read
        while True:
            await asyncio.sleep(POLL_SECONDS)
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
        self._use(entries)
        now = set(self._by_name)
        added, removed = (", ".join(sorted(names)) or "none" for names in (now - before, before - now))
        logger.warning("API keys reloaded from %s: %d keys; added: %s; removed: %s", path, len(now), added, removed)

    def _use(self, entries: Sequence[KeyEntry]) -> None:
        holders = {entry.id: _holder(entry, self._default) for entry in entries}
        hashes = {bytes.fromhex(entry.hash[7:]): holders[entry.id] for entry in entries if entry.hash}
        self._by_name = holders
        self._by_hash = {**hashes, **self._fixed}


@lru_cache(maxsize=1024)
def _digest(key: bytes) -> bytes:
    """Return the SHA-256 of a key. Most requests have a key that was in an earlier one."""
    return hashlib.sha256(key).digest()


def _valid(holder: _Holder | None) -> _Holder:
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
