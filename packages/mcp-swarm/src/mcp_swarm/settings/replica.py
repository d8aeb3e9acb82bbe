"""What a replica serves, where, and within which bounds."""

import re
from typing import Literal

from pydantic import Field, SecretStr, field_validator

from mcp_swarm.settings.words import Seconds, SettingsGroup, WordList

_ORIGIN = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]+)?|https?://\[[0-9a-fA-F:]+\](:[0-9]+)?")
_PACKAGE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


class ReplicaSettings(SettingsGroup):
    """Of each replica."""

    mcp_port: int = Field(8000, ge=1, le=65535)
    """TCP port that a replica listens on."""
    mcp_host: str = "127.0.0.1"
    """Address that a replica binds: by default only this machine can connect. The image sets `0.0.0.0`."""
    mcp_uds: str = Field("", max_length=100)  # of the 107 that Linux takes
    """Unix socket to listen on, in place of `MCP_HOST` and `MCP_PORT`: the path of a file that the replica makes. For
    callers and proxies on this machine."""
    mcp_name: str = Field("template-mcp", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    """The server's name, the same on every replica: letters, digits, `.`, `_`, `-`."""
    replica_name: str = Field("", pattern=r"^[A-Za-z0-9._-]{0,128}$")
    """This replica's name in `X-Served-By`. Empty: the host's name (in a container, its id)."""
    stateless_http: bool = True
    """Keep no session between requests. `false` needs one replica, or affinity by `Mcp-Session-Id`."""
    json_response: Literal["auto", "true", "false"] = "auto"
    """Whether a reply is one JSON document. `auto`: unless the caller takes an event stream and the call reports
    progress or logs something; `true`: always; `false`: as the MCP SDK does it, which streams."""
    auto_discover: bool = True
    """Serve what `MCP_COMPONENTS` holds; `false`: nothing."""
    mcp_components: WordList = ("server",)
    """Packages to discover, comma-separated: their `tools`, `resources`, `prompts` and `jobs` folders, or all of a
    package that has none of these."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = "INFO"
    """Minimum log level."""
    log_format: Literal["text", "json"] = "text"
    """Log lines for people, or one JSON object a line."""
    debug_errors: bool = False
    """Show callers why a tool failed. Off: they read that it failed, and the log says why."""
    dereference_schemas: bool = True
    """Replace each `$ref` in tools' schemas by what it refers to: some clients don't follow references. `false`: send
    schemas as they are written, with `$defs`, `$ref` and `$anchor`."""
    allowed_hosts: WordList = ()
    """Names that a request's `Host` may carry besides loopback's, comma-separated, `*` as wildcard. Empty: checked on
    loopback only."""
    allowed_origins: WordList = ()
    """Values of `Origin` that are let through, comma-separated, `*` as wildcard. Empty: only pages of this machine on
    loopback, and callers that are no browser."""
    cors_origins: WordList = ()
    """Origins of pages that may send requests and read the replies (CORS), comma-separated, as
    `https://app.example.com`. Empty: none."""
    max_body_bytes: int = Field(4 * 1024 * 1024, ge=1024)
    """Largest request body; beyond it: 413."""
    max_body_values: int = Field(100_000, ge=1000)
    """Most JSON values in a request body; one with more gets 413. To parse so many takes about 40 ms, in which other
    calls wait, and about 10 MB of memory."""
    call_timeout_seconds: Seconds = Field(60, gt=0)
    """Time for a tool, resource or prompt that names no timeout of its own; then an error."""
    tool_threads: int = Field(16, ge=1)
    """Calls of one synchronous (`def`) tool that run at once; more wait in line."""
    compress_min_bytes: int = Field(16 * 1024, ge=0)
    """Bytes of a reply from which on it is compressed (gzip) for callers that accept that. 0: never."""
    max_head_bytes: int = Field(64 * 1024, ge=1024)
    """Largest head of a request; beyond it: 431."""
    receive_timeout_seconds: Seconds = Field(30, gt=0)
    """Time for a request's head to arrive, and then for its body; beyond it: 408."""
    send_timeout_seconds: Seconds = Field(30, gt=0)
    """Time in which a client must read at least one byte of a reply that waits for it. If it reads none, its connection
    is closed."""
    max_in_flight: int = Field(100, ge=1)
    """Requests that a replica answers at once, until their replies are sent; one more gets 503 and `Retry-After` at
    once."""
    max_buffered_bytes: int = Field(64 * 1024 * 1024, ge=1024 * 1024)
    """Most bytes of all requests that are received or answered at the same time; one more gets 503. Also the most bytes
    of all replies that wait for their clients; beyond that, the slowest client's connection is closed."""
    cache_bytes: int = Field(32 * 1024 * 1024, ge=0)
    """Memory of a replica for results of cached tools, in bytes of JSON; with `REDIS_URL`
    replicas share them besides."""
    max_connections: int = Field(1000, ge=1)
    """Open connections. One more takes the place of the one that has been idle for longest; if none is, it is refused
    with 503."""
    max_subscriptions: int = Field(500, ge=1)
    """Most subscriptions (`subscriptions/listen`) of a replica; one more gets 503. It is never more than three quarters
    of `MAX_CONNECTIONS`: the others are for calls and probes."""
    max_requests_per_connection: int = Field(1000, ge=0)
    """Requests, give or take a quarter, after which a connection is ended with `Connection: close`, so that its client
    comes to another replica. 0: any number."""
    max_connection_age_seconds: Seconds = Field(30, ge=0)
    """Time, give or take a quarter, after which a connection's next response ends it. 0: never."""
    keep_alive_seconds: int = Field(75, ge=1)
    """Time after which an idle connection is closed. Below the 900 s after which Swarm's mesh forgets one, or its
    client would be reset."""
    drain_seconds: Seconds = Field(5, ge=0)
    """Time after SIGTERM in which `/readyz` says 503 and requests are still served, each as its connection's last. The
    same signal once more stops at once."""
    shutdown_grace_seconds: int = Field(25, ge=0)
    """Time after the drain for calls in flight; then they are cancelled."""
    loop_stall_seconds: Seconds = Field(30, ge=0)
    """A replica whose event loop stands still this long (an `async` tool that blocks) logs where, and exits to be
    replaced. 0: never."""

    mcp_replicas: int = Field(1, ge=1)
    """How many replicas are to serve under this name. More than one need `REQUEST_STATE_KEYS`."""
    replicas_dns: str = Field("", max_length=253)
    """A DNS name with one address for each replica, like `tasks.mcp` in a Swarm. A replica that finds others stops
    offering what needs `REDIS_URL` or `JOBS_URL`. With `REDIS_URL` replicas find each other there."""
    request_state_keys: SecretStr | None = None
    """Keys that seal what multi-round tools remember between rounds, 32 characters or more each, no spaces, one a line,
    newest first, the same on every replica. Empty: a single replica makes one for itself."""
    request_state_seconds: Seconds = Field(600, gt=0)
    """Time that a client has for each round of a multi-round tool."""
    redis_url: SecretStr | None = None
    """The Redis that replicas share (`redis://…` or `redis+sentinel://…`): change events, and which request states were
    used."""

    @field_validator("json_response", mode="before")
    @classmethod
    def _word(cls, value: object) -> object:
        words = {"1": "true", "yes": "true", "on": "true", "0": "false", "no": "false", "off": "false"}
        return words.get(value.lower(), value.lower()) if isinstance(value, str) else value

    @field_validator("log_level", mode="before")
    @classmethod
    def _upper(cls, value: object) -> object:
        return value.upper() if isinstance(value, str) else value

    @field_validator("mcp_components")
    @classmethod
    def _importable(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not _PACKAGE.fullmatch(name):
                raise ValueError(f"{name!r} is not a package's name (like server or examples.analytics)")
        return value

    @field_validator("cors_origins")
    @classmethod
    def _origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for origin in value:
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(f"{origin!r} is no origin like https://app.example.com, with a port if it has one")
        return value

    @field_validator("request_state_keys")
    @classmethod
    def _strong(cls, value: SecretStr | None) -> SecretStr | None:
        keys = _ring(value)
        if any(len(key.encode()) < 32 for key in keys):
            raise ValueError("a key is shorter than 32 characters; openssl rand -hex 32 makes one")
        if len(set(keys)) < len(keys):
            raise ValueError("a key is there twice")
        return value

    @property
    def subscriptions(self) -> int:
        """Subscriptions at once, within the share of connections that they may take."""
        return min(self.max_subscriptions, max(1, self.max_connections * 3 // 4))

    @property
    def request_state_ring(self) -> list[str]:
        """The keys that seal request states, newest first; the first seals, all unseal."""
        return _ring(self.request_state_keys)


def _ring(value: SecretStr | None) -> list[str]:
    return value.get_secret_value().replace(",", " ").split() if value is not None else []
