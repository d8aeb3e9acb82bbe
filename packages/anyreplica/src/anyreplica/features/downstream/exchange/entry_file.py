"""The reader of `DOWNSTREAM_TOKENS_FILE`: a TOML file with one table for each host."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
from pydantic import SecretStr, ValidationError

from anyreplica.features.downstream.exchange.entry import ExchangeEntry, TokenExchange
from anyreplica.settings.errors import StartupError

_SETTING = "DOWNSTREAM_TOKENS_FILE"
_LONGEST = 4096
"""Maximum number of characters in a client secret."""


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
