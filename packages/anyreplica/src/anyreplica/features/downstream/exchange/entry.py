"""An entry of `DOWNSTREAM_TOKENS_FILE`: how the calls of one host get a token."""

import ipaddress
import re
from dataclasses import dataclass
from typing import Annotated, Literal, Self

import httpx2
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, field_validator, model_validator

_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105
_TEXT = re.compile(r"[\x20-\x7e]+")
"""Pattern of a client id or a client secret (RFC 6749, appendix A)."""
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*")
"""Pattern of a list of scopes (RFC 6749, appendix A.4)."""
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[\x21\x22\x24-\x7e]+")
"""Pattern of an absolute URI without a fragment."""


def _as_tuple(value: object) -> object:
    return (value,) if isinstance(value, str) else value


_Words = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(strict=False), BeforeValidator(_as_tuple)]
"""One text or a list of texts."""


class ExchangeEntry(BaseModel):
    """An entry of the file, as the operator wrote it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    token_url: str
    """Token endpoint of the authorization server."""
    grant: Literal["token-exchange", "on-behalf-of"] = "token-exchange"
    """`token-exchange`: RFC 8693. `on-behalf-of`: the flow of this name in Microsoft Entra ID."""
    client_id: str
    client_secret_file: str
    client_auth_method: Literal["client_secret_basic", "client_secret_post"] = "client_secret_basic"
    audience: _Words = ()
    resource: _Words = ()
    scope: str = ""
    subject_token_type: str = _ACCESS_TOKEN
    requested_token_type: str = _ACCESS_TOKEN
    allow_http: bool = False
    """Whether the exchanged token may go to the host over plain HTTP."""

    @field_validator("token_url")
    @classmethod
    def _endpoint(cls, value: str) -> str:
        try:
            url = httpx2.URL(value if _URI.fullmatch(value) else "")
        except httpx2.InvalidURL:
            url = httpx2.URL()
        if not url.host or url.userinfo or not (url.scheme == "https" or (url.scheme == "http" and is_loopback(url))):
            raise ValueError("must be a URL like https://login.example.com/token; http only for this machine")
        return value

    @field_validator("client_id")
    @classmethod
    def _text(cls, value: str) -> str:
        if not _TEXT.fullmatch(value):
            raise ValueError("must consist of printable ASCII characters")
        return value

    @field_validator("scope")
    @classmethod
    def _scopes(cls, value: str) -> str:
        if value and not _SCOPE.fullmatch(value):
            raise ValueError("must be scopes with one space between them")
        return value

    @field_validator("resource", "subject_token_type", "requested_token_type")
    @classmethod
    def _uri(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for each in (value,) if isinstance(value, str) else value:
            if not _URI.fullmatch(each):
                raise ValueError("must be an absolute URI without a fragment")
        return value

    @model_validator(mode="after")
    def _on_behalf_of(self) -> Self:
        if self.grant == "on-behalf-of":
            for name in ("audience", "resource", "subject_token_type", "requested_token_type"):
                if name in self.model_fields_set:
                    raise ValueError(f'{name}: not possible with grant = "on-behalf-of"; name the API in scope')
            if not self.scope:
                raise ValueError('scope: required by grant = "on-behalf-of"; set it')
        return self


@dataclass(frozen=True)
class TokenExchange:
    """The exchange of tokens for the calls of one host."""

    host: str
    """Host of the API, with its port unless it is the default port of the scheme."""
    entry: ExchangeEntry
    secret: SecretStr

    def may_carry(self, url: httpx2.URL) -> bool:
        """Return whether a request to this URL may carry a token: it is encrypted or stays on this machine."""
        return url.scheme == "https" or self.entry.allow_http or is_loopback(url)


def is_loopback(url: httpx2.URL) -> bool:
    """Return whether a URL names this machine."""
    if url.host == "localhost":
        return True
    try:
        return ipaddress.ip_address(url.host).is_loopback
    except ValueError:
        return False
