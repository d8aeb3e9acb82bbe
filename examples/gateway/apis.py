"""Which APIs are asked; the operator says so, and nobody else.

`GATEWAY_APIS`, such as `https://api.example.com/v1, https://crm.example.com`, is required: nothing that isn't beneath
one of them is asked. `GATEWAY_TOKENS`, or the secret `gateway_tokens`, has a line for each of them that wants a bearer
token: `https://api.example.com/v1 the-token`. Whatever a token can read, every caller can read: give it no more rights
than they may have. `GATEWAY_PRIVATE_NETWORKS`, such as `10.1.0.0/16`, is where a name may lead that isn't public; an
address that stands in `GATEWAY_APIS` itself is asked wherever it is.
"""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

import httpx2
from fastmcp.exceptions import ToolError
from mcp_swarm import Settings, StartupError
from pydantic import Field, SecretStr

from examples.gateway.addresses import Network

_IN_NAMES = ":@!$&'()*+,="
"""What a path's names may hold as it is (RFC 3986, section 3.3: pchar), but for `;`, which some servers cut at."""


@dataclass(frozen=True)
class Api:
    """One of them.

    Attributes:
        base: its URL, without a slash at the end.
    """

    base: str
    token: str


@dataclass(frozen=True)
class Apis:
    """All of them, by their URLs."""

    known: Mapping[str, Api]
    networks: tuple[Network, ...]

    def find(self, url: str) -> tuple[Api, str]:
        """The API that a URL is beneath, and the URL with its path encoded; no path leads out of the API.

        The part that names the server is compared, never parsed, so that no two readers can differ about it. What
        servers between here and there may read in two ways is refused rather than encoded: `%` (decoded twice), `\\`
        (a slash to some), `;` (cut off by some), names of dots and spaces (`..`).

        Raises:
            ToolError: it is beneath none, or has no path of names.
        """
        beneath = [base for base in self.known if url == base or url.startswith(f"{base}/")]
        if not beneath:
            raise ToolError(f"url must be beneath one of: {', '.join(self.known)}")
        base = max(beneath, key=len)
        path = url.removeprefix(base)
        relative = path.removeprefix("/")
        names = relative.removesuffix("/").split("/") if relative else []
        if not path.isprintable() or set(path) & set("%\\;?#") or not all(name.strip(" .") for name in names):
            raise ToolError(
                "the path must be names with '/' in between, as in 'users/42': none of them empty, '.' or '..', not "
                "percent-encoded, and without % \\ ; ? # and control characters; parameters go into query"
            )
        return self.known[base], base + quote(path, safe="/" + _IN_NAMES)


class GatewaySettings(Settings):
    """This pack's settings."""

    gateway_apis: str = Field("", description="URLs of the APIs that may be asked, with commas between.")
    gateway_tokens: SecretStr = Field(SecretStr(""), description="A line for each API that wants a token: URL, token.")
    gateway_private_networks: str = Field("", description="Networks that aren't public where a name may lead.")


def load() -> Apis:
    """As the settings say.

    Raises:
        StartupError: a variable is wrong, by name; no token is shown.
    """
    settings = GatewaySettings.load()
    bases = [_checked(each) for each in re.split(r"[,\s]+", settings.gateway_apis) if each]
    if not bases:
        raise StartupError("GATEWAY_APIS: required; URLs like https://api.example.com/v1")
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
        raise StartupError("GATEWAY_APIS: URLs like https://api.example.com/v1, without user, query and fragment")
    return str(url).rstrip("/")


def _token(line: str, bases: list[str]) -> tuple[str, str]:
    url, _, token = line.strip().partition(" ")
    if url.rstrip("/") not in bases:
        raise StartupError("GATEWAY_TOKENS: each line begins with a URL that is in GATEWAY_APIS, and a space")
    if not re.fullmatch(r"[\x21-\x7e]+", token.strip()):
        raise StartupError("GATEWAY_TOKENS: visible ASCII characters, no spaces: nothing else fits a header")
    return url.rstrip("/"), token.strip()


def _networks(given: str) -> tuple[Network, ...]:
    try:
        return tuple(ipaddress.ip_network(each) for each in re.split(r"[,\s]+", given) if each)
    except ValueError as error:
        raise StartupError(f"GATEWAY_PRIVATE_NETWORKS: {error}") from None
