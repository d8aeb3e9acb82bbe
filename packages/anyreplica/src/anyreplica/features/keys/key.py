"""An API key, and its entry in the key file. The entry never contains the key itself."""

import hashlib
import json
import re
import secrets
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from anyreplica.auth.caller import Caller
from anyreplica.settings.rate import Rate, parse
from anyreplica.signing.keypair import public_key

PREFIX = "mcp_"
"""Prefix of every new key. Scanners for leaked secrets find keys by this prefix."""

LEAST = 32
"""Minimum number of characters in a key. A hash does not protect a key that is easy to guess, and a slow hash would
cost time on every call."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

_HASH = re.compile(r"sha256:[0-9a-f]{64}")

_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
"""A scope (RFC 6749, appendix A.4)."""


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
