"""Settings of authentication: keys, tokens and signatures."""

import re
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from anyreplica.settings.words import Seconds, SettingsGroup, WordList

# An Authorization header cannot carry other characters in one token (RFC 9110, section 5.6.2; RFC 6750, section 2.1).
_TOKEN = re.compile(r"[\x21-\x7e]+")
_URL = re.compile(r"https?://[^\s/?#]+(/[^\s?#]*)?")
_ALGORITHMS = frozenset(
    "RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA Ed25519 Ed448".split()  # noqa: SIM905
)


class AccessSettings(SettingsGroup):
    """Settings of keys, tokens and signatures."""

    auth_enabled: bool = False
    """Require authentication. Every caller needs a key (`AUTH_TOKEN` or `API_KEYS_FILE`), a token of `AUTH_JWT_ISSUER`,
    or a signature."""
    auth_token: SecretStr | None = None
    """A single key. Its holder may use all components, except tools with `require_scopes`, because this key has no
    scopes. Empty: disabled."""
    api_keys_file: Path | None = None
    """Path of a file with hashed keys. Each key has its own scopes, tools, rate limit and expiry. The replica reads the
    file again when it changes. `anyreplica keys new` makes a key."""
    auth_jwt_issuer: str = ""
    """Issuer of the tokens (JWT) that callers may use. It must be equal to the `iss` claim. Empty: no tokens."""
    auth_jwt_audience: WordList = ()
    """Accepted audiences of a token, comma-separated. The `aud` claim must contain at least one of them."""
    auth_jwt_jwks: str = ""
    """Public keys of the issuer (JWKS): a URL or the path of a file. The replica loads the keys again when a token has
    an unknown key."""
    auth_jwt_algorithms: WordList = ("RS256", "ES256")
    """Accepted signature algorithms of tokens, comma-separated. Only algorithms with public keys are possible."""
    auth_jwt_scopes: WordList = ()
    """Scopes that every token must have, comma-separated. A token without them gets HTTP 403."""
    public_url: str = ""
    """URL at which clients reach this server, such as `https://mcp.example.com`. Clients that log in get this URL and
    the URL of the login (RFC 9728). If it has a path, the replica also answers below this path, so a proxy may remove
    the path or keep it. Required with `AUTH_JWT_ISSUER` and `LOGIN_PROVIDER`."""
    signing: Literal["off", "accept", "require"] = "off"
    """Signed requests (RFC 9421). The public keys of the signers are in `API_KEYS_FILE`. `off`: signatures are ignored.
    `accept`: a valid signature authenticates the caller, like a key or a token. `require`: every caller must sign."""
    signing_max_age_seconds: Seconds = Field(60, ge=1, le=3600)
    """Time for which a signature is valid, in seconds."""
    signing_skew_seconds: Seconds = Field(5, ge=0, le=300)
    """Accepted difference between the clocks of the signer and the replica, in seconds."""

    @field_validator("auth_token")
    @classmethod
    def _sendable(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not _TOKEN.fullmatch(value.get_secret_value()):
            raise ValueError("use one or more visible ASCII characters without spaces; a header carries nothing else")
        return value

    @field_validator("auth_jwt_algorithms")
    @classmethod
    def _public(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if name not in _ALGORITHMS:
                raise ValueError(f"{name!r} is not one of the algorithms {', '.join(sorted(_ALGORITHMS))}")
        return value

    @field_validator("public_url")
    @classmethod
    def _url(cls, value: str) -> str:
        if value and not _URL.fullmatch(value):
            raise ValueError("not a valid URL; write it like https://mcp.example.com, without a query")
        return value.rstrip("/")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.auth_jwt_issuer:
            for name in ("auth_jwt_audience", "auth_jwt_jwks", "auth_jwt_algorithms", "public_url"):
                if not getattr(self, name):
                    raise ValueError(f"{name.upper()}: required by AUTH_JWT_ISSUER={self.auth_jwt_issuer}; set it")
        if self.signing != "off" and self.api_keys_file is None:
            raise ValueError(
                f"API_KEYS_FILE: required by SIGNING={self.signing}; set it to the file with the public keys"
            )
        return self

    @property
    def prefix(self) -> str:
        """Path of `PUBLIC_URL`: the prefix at which a proxy serves this server. Empty without a path."""
        return urlsplit(self.public_url).path

    @property
    def authentication_sources(self) -> str:
        """Names of the set variables that authenticate callers, comma-separated."""
        names = ("AUTH_TOKEN", "API_KEYS_FILE", "AUTH_JWT_ISSUER")
        return ", ".join(name for name in names if getattr(self, name.lower()))
