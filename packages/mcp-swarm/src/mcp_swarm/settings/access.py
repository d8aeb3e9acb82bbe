"""Who may call, and how that is known."""

import re
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from mcp_swarm.settings.words import Seconds, SettingsGroup, WordList

# A character outside of these can't be sent in an Authorization header as one token (RFC 9110, 5.6.2; RFC 6750, 2.1).
_TOKEN = re.compile(r"[\x21-\x7e]+")
_URL = re.compile(r"https?://[^\s/?#]+(/[^\s?#]*)?")
_ALGORITHMS = frozenset(
    "RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA Ed25519 Ed448".split()  # noqa: SIM905
)


class AccessSettings(SettingsGroup):
    """Of keys, tokens and signatures."""

    auth_enabled: bool = False
    """Ask every caller who it is: for a key of `AUTH_TOKEN` or `API_KEYS_FILE`, a token of `AUTH_JWT_ISSUER`, or a
    signature."""
    auth_token: SecretStr | None = None
    """A single key, which may do everything."""
    api_keys_file: Path | None = None
    """File of many keys, hashed, each with its scopes, tools, rate and time; read again when it changes.
    `mcp-swarm keys new` makes one."""
    auth_jwt_issuer: str = ""
    """Who issues the tokens (JWT) that callers may show: `iss`."""
    auth_jwt_audience: WordList = ()
    """For whom a token must be issued: one of these in its `aud`."""
    auth_jwt_jwks: str = ""
    """The issuer's public keys (JWKS): a URL, asked again when an unknown key comes, or a file."""
    auth_jwt_algorithms: WordList = ("RS256", "ES256")
    """Algorithms that tokens may be signed with; only such with public keys."""
    auth_jwt_scopes: WordList = ()
    """Scopes that every token must have; without them: 403."""
    public_url: str = ""
    """Where callers reach this server, such as `https://mcp.example.com`: clients that log in are told it, and where to
    log in (RFC 9728). Required with `AUTH_JWT_ISSUER`."""
    signing: Literal["off", "accept", "require"] = "off"
    """Signed requests (RFC 9421) of callers whose entry in `API_KEYS_FILE` has a public key."""
    signing_max_age_seconds: Seconds = Field(60, ge=1, le=3600)
    """Time that a signature is good for."""
    signing_skew_seconds: Seconds = Field(5, ge=0, le=300)
    """By how much a signer's clock may be wrong."""

    @field_validator("auth_token")
    @classmethod
    def _sendable(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not _TOKEN.fullmatch(value.get_secret_value()):
            raise ValueError("one or more visible ASCII characters, no spaces: nothing else fits a header")
        return value

    @field_validator("auth_jwt_algorithms")
    @classmethod
    def _public(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if name not in _ALGORITHMS:
                raise ValueError(f"{name!r} is none of {', '.join(sorted(_ALGORITHMS))}")
        return value

    @field_validator("public_url")
    @classmethod
    def _url(cls, value: str) -> str:
        if value and not _URL.fullmatch(value):
            raise ValueError("no URL like https://mcp.example.com, without query")
        return value.rstrip("/")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.auth_jwt_issuer:
            for name in ("auth_jwt_audience", "auth_jwt_jwks", "auth_jwt_algorithms", "public_url"):
                if not getattr(self, name):
                    raise ValueError(f"{name.upper()}: required by AUTH_JWT_ISSUER={self.auth_jwt_issuer}")
        if self.signing != "off" and self.api_keys_file is None:
            raise ValueError(f"API_KEYS_FILE: required by SIGNING={self.signing}; it holds the public keys")
        return self

    @property
    def asks_who(self) -> str:
        """The variables that say by what callers are known, comma-separated."""
        names = ("AUTH_TOKEN", "API_KEYS_FILE", "AUTH_JWT_ISSUER")
        return ", ".join(name for name in names if getattr(self, name.lower()))
