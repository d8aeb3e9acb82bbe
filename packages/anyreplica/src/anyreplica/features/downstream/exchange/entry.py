"""An entry of `DOWNSTREAM_TOKENS_FILE`: how the calls of one host get a token."""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import httpx2
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from anyreplica.settings.errors import StartupError

_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105

_TEXT = re.compile(r"[\x20-\x7e]+")
"""Pattern of a client id or a client secret (RFC 6749, appendix A)."""

_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*")
"""Pattern of a list of scopes (RFC 6749, appendix A.4)."""

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[\x21\x22\x24-\x7e]+")
"""Pattern of an absolute URI without a fragment."""

_SETTING = "DOWNSTREAM_TOKENS_FILE"

_LONGEST = 4096
"""Maximum number of characters in a client secret."""


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


def read(path: Path) -> dict[str, TokenExchange]:
    """Return the exchanges of a file by host, at least one.

    Raises:
        StartupError: the file, or the file of a client secret, is not valid. The text names the file, the host and the
            field. It contains no value of the file, because a user may have written a secret there by mistake.
    """
    exchanges: dict[str, TokenExchange] = {}
    for name, value in _tables(path).items():
        where = f"{_SETTING}: {path}, {_shown(name)}"
        host = _host(name)
        if host is None:
            raise StartupError(f"{where}: not a host; write it like api.example.com or api.example.com:8443")
        if host in exchanges:
            raise StartupError(f"{where}: two tables name this host")
        entry = _entry(where, value)
        exchanges[host] = TokenExchange(host, entry, _secret(where, path.parent / entry.client_secret_file))
    if not exchanges:
        raise StartupError(f'{_SETTING}: {path} contains no host; begin a table like ["api.example.com"]')
    return exchanges


def _tables(path: Path) -> Mapping[str, Any]:
    import tomllib  # noqa: PLC0415  # only few servers have this file

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise StartupError(f"{_SETTING}: {path} is not TOML: {error}") from None
    except RecursionError:
        raise StartupError(f"{_SETTING}: {path} is not TOML: it is nested too deeply") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise StartupError(f"{_SETTING}: {path} cannot be read: {reason}") from None


def _host(name: str) -> str | None:
    """Return the host as `httpx2.URL.netloc` writes it: in lower case, and without the default port of HTTP or HTTPS.

    Return None if the name is not a host.
    """
    if set(name) & set("/?#@\\%*") or not name.isprintable() or any(character.isspace() for character in name):
        return None
    try:
        url = httpx2.URL(f"https://{name}/")
    except httpx2.InvalidURL:
        return None
    if not url.host or (url.port or 1) > 65535:
        return None
    return url.netloc.decode("ascii").removesuffix(":80")  # httpx2 has removed the default port of HTTPS


def _entry(where: str, value: object) -> ExchangeEntry:
    if not isinstance(value, dict):
        raise StartupError(f'{where}: must be a table; the fields of a host follow a line like ["api.example.com"]')
    if any(isinstance(each, dict) for each in value.values()):
        raise StartupError(f'{where}: a table in a table; write the host in quotes, like ["api.example.com"]')
    try:
        return ExchangeEntry.model_validate(value)
    except ValidationError as error:
        raise StartupError(f"{where}, {_problem(error)}") from None


def _problem(error: ValidationError) -> str:
    """Return the first wrong field, and what is wrong with it."""
    problem = error.errors(include_input=False, include_url=False)[0]
    text = str(problem["msg"]).removeprefix("Value error, ").replace("Input should be", "must be", 1)
    field = str(problem["loc"][0]) if problem["loc"] else ""
    if problem["type"] == "missing":
        text = "required; set it"
    elif field == "client_secret":
        text = "not a field; write the secret into a file, and name the file in client_secret_file"
    elif problem["type"] == "extra_forbidden":
        field = _shown(field)
        text = f"not a field; the fields are {', '.join(ExchangeEntry.model_fields)}"
    return f"{field}: {text}" if field else text


def _secret(where: str, path: Path) -> SecretStr:
    where = f"{where}, client_secret_file:"
    try:
        if not path.exists():  # the value may be the secret itself, so no message shows it
            raise StartupError(f"{where} there is no such file; name a file that has the secret in one line")
        where = f"{where} {_shown(str(path))}"
        text = path.read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
    except (OSError, ValueError) as error:  # a ValueError: not text, or a null character in the path
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise StartupError(f"{where} cannot be read: {reason}") from None
    if not text or len(text) > _LONGEST or not (text.isascii() and text.isprintable()):
        raise StartupError(f"{where} must contain one line of printable ASCII characters")
    return SecretStr(text)


def _shown(text: str) -> str:
    """Return a text of the file for an error of one line."""
    return text if text.isprintable() else ascii(text)
