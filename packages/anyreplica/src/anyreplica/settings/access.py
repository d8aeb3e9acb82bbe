"""Settings of who may call a server, and of what goes on to other servers."""

import ipaddress
import re
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import field_validator

from anyreplica.settings.words import SettingsGroup, WordList

_URL = re.compile(r"https?://[^\s/?#]+(/[^\s?#]*)?")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # RFC 9110, section 5.1


class AccessSettings(SettingsGroup):
    """Settings of callers, whatever authenticates them."""

    auth_enabled: bool = False
    """Require authentication. Every caller needs a key (`AUTH_TOKEN` or `API_KEYS_FILE`), a token of `AUTH_JWT_ISSUER`,
    or a signature."""
    api_keys_file: Path | None = None
    """Path of a file with hashed keys. Each key has its own scopes, tools, rate limit and expiry. The replica reads the
    file again when it changes. `anyreplica keys new` makes a key."""
    public_url: str = ""
    """URL at which clients reach this server, such as `https://mcp.example.com`. Clients that log in get this URL and
    the URL of the login (RFC 9728). If it has a path, the replica also answers below this path, so a proxy may remove
    the path or keep it. The server's own pages at this URL may send requests to it. Required with `AUTH_JWT_ISSUER` and
    `LOGIN_PROVIDER`."""
    trusted_proxies: WordList = ()
    """Addresses or networks of trusted proxies, comma-separated. The replica reads the `X-Forwarded-For` header only if
    such a proxy sent it. It then uses the address in the header to distinguish callers without authentication. Never
    name the addresses of the routing mesh."""
    forward_headers: WordList = ()
    """Headers of a request that other servers get, in addition to `traceparent`, `tracestate` and `Accept-Language`,
    comma-separated. The other servers are those behind a proxy (`run URL`, `create_proxy`), behind
    `FastMCP.from_openapi`, and those that a tool calls with a client of FastMCP. Headers that carry credentials, such
    as `Authorization`, are refused if callers must authenticate, or if ASGI middleware of the server's author may
    authenticate them: use `DOWNSTREAM_TOKENS_FILE`, and for `FastMCP.from_openapi` also `downstream.CallerAuth`."""

    @field_validator("public_url")
    @classmethod
    def _url(cls, value: str) -> str:
        if value and not _URL.fullmatch(value):
            raise ValueError("not a valid URL; write it like https://mcp.example.com, without a query")
        return value.rstrip("/")

    @field_validator("trusted_proxies")
    @classmethod
    def _networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for network in value:
            try:
                ipaddress.ip_network(network)
            except ValueError as error:
                raise ValueError(f"{error}; write it like 10.0.0.7 or 10.0.0.0/8") from None
        return value

    @field_validator("forward_headers")
    @classmethod
    def _names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not _HEADER_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not the name of a header; write names like X-Tenant, comma-separated")
        return tuple(name.lower() for name in value)

    @property
    def prefix(self) -> str:
        """Path of `PUBLIC_URL`: the prefix at which a proxy serves this server. Empty without a path."""
        return urlsplit(self.public_url).path

    @property
    def own_origins(self) -> tuple[str, ...]:
        """Origin of the server's own pages, as their browsers name it in `Origin`. Empty without `PUBLIC_URL`."""
        url = urlsplit(self.public_url)
        return (f"{url.scheme}://{url.netloc}",) if self.public_url else ()

    @property
    def chosen_login(self) -> str:
        """The variable that chooses a login of users, with its value. Empty: no variable does."""
        return ""
