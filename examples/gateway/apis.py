"""The APIs that the gateway may call; only the operator can configure them.

`GATEWAY_APIS`, such as `https://api.example.com/v1, https://crm.example.com`, is required. The gateway calls only URLs
below one of these URLs. `GATEWAY_TOKENS`, or the secret `gateway_tokens`, has one line for each API that needs a
bearer token: `https://api.example.com/v1 the-token`. Every caller can read all data that a token can read, so give a
token only the rights that all callers may have. For calls with the rights of each user, configure token exchange
(`DOWNSTREAM_TOKENS_FILE`) for the host of the API. `GATEWAY_PRIVATE_NETWORKS`, such as `10.1.0.0/16`, allows names that
resolve to private addresses in these networks. An IP address in `GATEWAY_APIS` itself is always allowed.
"""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

import httpx2
from anyreplica import Settings, StartupError
from fastmcp.exceptions import ToolError
from pydantic import Field, SecretStr

from examples.gateway.addresses import Network

_IN_NAMES = ":@!$&'()*+,="
"""Special characters that need no encoding in a path (RFC 3986, section 3.3: pchar).

The list has no `;`, because some servers cut the path at this character.
"""


@dataclass(frozen=True)
class Api:
    """One API."""

    base: str
    """URL without a slash at the end."""
    token: str
    """Bearer token; empty: none."""


@dataclass(frozen=True)
class Apis:
    """All APIs, by their URLs."""

    known: Mapping[str, Api]
    networks: tuple[Network, ...]

    def find(self, url: str) -> tuple[Api, str]:
        """Return the API that a URL belongs to, and the URL with an encoded path; no path can leave the API.

        The method compares the server part of the URL as text and never parses it. So two parsers can't disagree
        about it. The method refuses characters that servers interpret in different ways, instead of encoding them: `%`
        (may be decoded twice), `\\` (a slash for some servers), `;` (some servers cut the path there), and names of
        only dots and spaces (`..`).

        Raises:
            ToolError: The URL is not below an API, or its path is not allowed.
        """
        beneath = [base for base in self.known if url == base or url.startswith(f"{base}/")]
        if not beneath:
            raise ToolError(f"url must begin with one of: {', '.join(self.known)}")
        base = max(beneath, key=len)
        path = url.removeprefix(base)
        relative = path.removeprefix("/")
        names = relative.removesuffix("/").split("/") if relative else []
        if not path.isprintable() or set(path) & set("%\\;?#") or not all(name.strip(" .") for name in names):
            raise ToolError(
                "the path must be names separated by '/', such as 'users/42'. No name may be empty, '.' or '..', "
                "percent-encoded, or contain % \\ ; ? # or control characters. Put parameters into query."
            )
        return self.known[base], base + quote(path, safe="/" + _IN_NAMES)


class GatewaySettings(Settings):
    """The settings of this pack."""

    gateway_apis: str = Field("", description="URLs of the APIs, separated by commas. Required.")
    gateway_tokens: SecretStr = Field(
        SecretStr(""), description="Bearer tokens: one line per API with its URL, a space and its token."
    )
    gateway_private_networks: str = Field(
        "", description="Private networks that names of APIs may resolve to, separated by commas. Empty: none."
    )


def load() -> Apis:
    """Return the APIs from the settings.

    Raises:
        StartupError: A variable is wrong; the message names the variable and shows no token.
    """
    settings = GatewaySettings.load()
    bases = [_checked(each) for each in re.split(r"[,\s]+", settings.gateway_apis) if each]
    if not bases:
        raise StartupError("GATEWAY_APIS: required; set URLs like https://api.example.com/v1")
    lines = settings.gateway_tokens.get_secret_value().splitlines()
    tokens = dict(_token(line, bases) for line in lines if line.strip())
    networks = _networks(settings.gateway_private_networks)
    return Apis({base: Api(base, tokens.get(base, "")) for base in bases}, networks)


def _checked(value: str) -> str:
    try:
        url = httpx2.URL(value)
    except httpx2.InvalidURL:
        url = httpx2.URL()
    odd = url.userinfo or set(value) & set("?#\\%") or (url.port or 0) > 65535
    if url.scheme not in ("http", "https") or not url.host or odd:
        raise StartupError("GATEWAY_APIS: must be URLs like https://api.example.com/v1, without user, query, fragment")
    return str(url).rstrip("/")


def _token(line: str, bases: list[str]) -> tuple[str, str]:
    url, _, token = line.strip().partition(" ")
    if url.rstrip("/") not in bases:
        raise StartupError("GATEWAY_TOKENS: each line must begin with a URL from GATEWAY_APIS and a space")
    if not re.fullmatch(r"[\x21-\x7e]+", token.strip()):
        raise StartupError("GATEWAY_TOKENS: a token must consist of visible ASCII characters without spaces")
    return url.rstrip("/"), token.strip()


def _networks(given: str) -> tuple[Network, ...]:
    try:
        return tuple(ipaddress.ip_network(each) for each in re.split(r"[,\s]+", given) if each)
    except ValueError as error:
        raise StartupError(f"GATEWAY_PRIVATE_NETWORKS: {error}") from None
