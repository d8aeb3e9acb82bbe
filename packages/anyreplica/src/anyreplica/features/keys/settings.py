"""Settings of keys and tokens (JWT)."""

import re
from collections.abc import Iterator
from typing import Self

from pydantic import SecretStr, field_validator, model_validator

from anyreplica.settings import CoreSettings
from anyreplica.settings.words import WordList

# An Authorization header cannot carry other characters in one token (RFC 9110, section 5.6.2; RFC 6750, section 2.1).
_TOKEN = re.compile(r"[\x21-\x7e]+")
_ALGORITHMS = frozenset(
    "RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA Ed25519 Ed448".split()  # noqa: SIM905
)


class KeySettings(CoreSettings):
    """Settings of keys and tokens."""

    auth_token: SecretStr | None = None
    """A single key. Its holder may use all components, except tools with `require_scopes`, because this key has no
    scopes. Empty: disabled."""
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

    @model_validator(mode="after")
    def _issuer_whole(self) -> Self:
        if self.auth_jwt_issuer:
            for name in ("auth_jwt_audience", "auth_jwt_jwks", "auth_jwt_algorithms", "public_url"):
                if not getattr(self, name):
                    raise ValueError(f"{name.upper()}: required by AUTH_JWT_ISSUER={self.auth_jwt_issuer}; set it")
        if self.auth_enabled and not self.authentication_sources:
            raise ValueError(
                "AUTH_TOKEN, API_KEYS_FILE or AUTH_JWT_ISSUER: required by AUTH_ENABLED=true; "
                "set one of them, or mount a secret named auth_token"
            )
        return self

    @property
    def authentication_sources(self) -> str:
        """Names of the set variables that authenticate callers, comma-separated."""
        names = ("AUTH_TOKEN", "API_KEYS_FILE", "AUTH_JWT_ISSUER")
        return ", ".join(name for name in names if getattr(self, name.lower()))

    def doubts(self) -> Iterator[str]:
        yield from super().doubts()
        if self.authentication_sources and not self.auth_enabled:
            yield (
                f"{self.authentication_sources}: set but not used, because AUTH_ENABLED is false; callers need no key."
            )
