"""Settings of a replica: its address, its paths, its components and its limits."""

import re
from typing import Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from anyreplica.settings.words import Seconds, SettingsGroup, WordList

_ORIGIN = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]+)?|https?://\[[0-9a-fA-F:]+\](:[0-9]+)?")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_REPLICA_NAME = re.compile(r"[A-Za-z0-9._-]{0,128}")
_PACKAGE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


class ReplicaSettings(SettingsGroup):
    """Settings of each replica."""

    mcp_port: int = Field(8150, ge=1, le=65535)
    """TCP port that a replica listens on. The container image sets 8000, and the stack publishes it as 8150."""
    mcp_host: str = "127.0.0.1"
    """Address that a replica listens on. With the default, only programs on the same machine can connect. `::`: all
    addresses of the machine, IPv4 and IPv6; the container image sets it. `0.0.0.0`: all IPv4 addresses."""
    mcp_uds: str = Field("", max_length=100)  # Linux accepts at most 107 bytes
    """Path of a Unix socket. If set, the replica creates the socket and listens on it instead of `MCP_HOST` and
    `MCP_PORT`. Use it for clients and proxies on the same machine."""
    event_loop: Literal["uvloop", "asyncio"] = "uvloop"
    """Event loop of a replica or worker. `uvloop`: the faster one. `asyncio`: the loop of Python itself, for tools that
    need it, for example because they call `nest_asyncio.apply()`."""
    mcp_name: str = "template-mcp"
    """Name of the server, the same on every replica. Allowed characters: letters, digits, `.`, `_` and `-`."""
    replica_name: str = ""
    """Name of this replica in the `X-Served-By` header. Empty: the name of the host (in a container, its id)."""
    stateless_http: bool = True
    """Whether each request of a handshake-protocol client stands alone. `false` is another name for
    `HANDSHAKE_SESSIONS=full`."""
    handshake_sessions: Literal["off", "ask", "full"] = "off"
    """Whether a tool can ask a handshake-protocol client in the middle of a call (elicitation, sampling, roots). `off`:
    no. `ask`: yes, on the event stream of the call. The client then gets a session id, which any replica can read.
    `full`: as `ask`; a client can also open an event stream outside of its calls, subscribe to resources, set a log
    level, and cancel a call, and tools can keep state for a session. Several replicas need `REDIS_URL`."""
    json_response: Literal["auto", "true", "false"] = "auto"
    """Whether a reply is one JSON object. `auto`: yes, unless the client accepts an event stream and the call reports
    progress, sends a log message, asks the client or takes longer than `FIRST_EVENT_SECONDS`. `true`: always, except
    for subscriptions. `false`: the reply to a handshake-protocol client is always an event stream."""
    auto_discover: bool = True
    """Serve the components of the packages in `MCP_COMPONENTS`. `false`: serve none of them."""
    mcp_components: WordList = ("server",)
    """Packages with components, comma-separated. The replica loads the `tools`, `resources`, `prompts` and `jobs`
    folders of each package, or the whole package if it has none of these folders."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "WARN", "ERROR", "CRITICAL", "FATAL"] = "INFO"
    """Minimum log level. `WARN` means `WARNING`, and `FATAL` means `CRITICAL`."""
    log_format: Literal["text", "json"] = "text"
    """Format of log lines. `text`: for people. `json`: one JSON object per line."""
    debug_errors: bool = False
    """Include the reason in the error that a caller gets when a component fails. `false`: the caller gets an error
    without the reason, and the log has the reason."""
    dereference_schemas: bool = True
    """Replace each `$ref` in the schemas of tools with the definition that it refers to, because some clients do not
    follow references. `false`: send the schemas as they are, with `$defs`, `$ref` and `$anchor`."""
    drop_unknown_arguments: bool = False
    """Remove the arguments that a tool does not have from its calls, because some clients add arguments of their own.
    For example, n8n sends `sessionId`, `action`, `chatInput` and `toolCallId`. `false`: such a call gets an error that
    names the arguments of the tool."""
    parse_json_arguments: bool = False
    """Parse an argument that is a JSON text if the tool needs a list or an object and accepts no text. Some models send
    `"[1, 2]"` for `[1, 2]`. `false`: such a call gets an error."""
    allowed_hosts: WordList = ()
    """Names that a request may have in its `Host` header besides the loopback names, comma-separated. `*` is a
    wildcard. Other names get HTTP 421. Empty: the replica checks `Host` only on loopback addresses."""
    allowed_origins: WordList = ()
    """Values of the `Origin` header that a replica accepts, comma-separated. `*` is a wildcard. Other values get HTTP
    403. Empty: only pages of the same machine, on loopback addresses. Requests without `Origin` always pass: they do
    not come from a browser."""
    cors_origins: WordList = ()
    """Origins of web pages that may send requests and read the replies (CORS), comma-separated. Example:
    `https://app.example.com`. Empty: none."""
    max_body_bytes: int = Field(4 * 1024 * 1024, ge=1024)
    """Maximum size of a request body, in bytes. A larger body gets HTTP 413."""
    max_body_values: int = Field(100_000, ge=1000)
    """Maximum number of JSON values in a request body. A body with more values gets HTTP 413. Parsing 100000 values
    takes about 40 ms and about 10 MB of memory. Other calls wait during this time."""
    call_timeout_seconds: Seconds = Field(60, gt=0)
    """Time limit for a tool, resource or prompt without a timeout of its own, in seconds. When it ends, the call gets
    an error."""
    first_event_seconds: Seconds = Field(2, ge=0)
    """Time without a reply after which the reply to a call becomes an event stream, if its client accepts one, in
    seconds. The stream gets a comment as often. So neither a proxy nor a client with a time limit for silence, often 5
    s, closes the connection of a long call. 0: only an event makes the reply an event stream, and comments follow every
    15 s."""
    tool_threads: int = Field(16, ge=1)
    """Maximum number of calls of one synchronous (`def`) tool that run at the same time. Further calls wait."""
    compress_min_bytes: int = Field(16 * 1024, ge=0)
    """Minimum size of a reply that is compressed with gzip, in bytes. Only clients that accept gzip get compressed
    replies. 0: no compression."""
    max_head_bytes: int = Field(64 * 1024, ge=1024)
    """Maximum size of a request head, in bytes. A larger head gets HTTP 431."""
    receive_timeout_seconds: Seconds = Field(30, gt=0)
    """Time limit for the head of a request to arrive, in seconds. The body then has the same time. A slower request
    gets HTTP 408."""
    send_timeout_seconds: Seconds = Field(30, gt=0)
    """Time in which a client must read at least one byte of a waiting reply, in seconds. If the client reads nothing in
    this time, the replica closes the connection."""
    max_in_flight: int = Field(100, ge=1)
    """Maximum number of requests in flight in a replica. A request is in flight until its reply is sent. A further
    request gets HTTP 503 with `Retry-After` at once."""
    max_buffered_bytes: int = Field(64 * 1024 * 1024, ge=1024 * 1024)
    """Maximum memory of all requests that a replica receives or answers at the same time, in bytes. A request beyond
    the limit gets HTTP 503. The same limit holds for all replies that wait for slow clients. Beyond it, the replica
    closes the connection of the slowest client."""
    session_state_bytes: int = Field(32 * 1024 * 1024, ge=1024 * 1024)
    """Maximum memory for the state that tools keep with `ctx.set_state` and in FastMCP's sessions (`SessionProvider`,
    `UserSession`), in bytes. With `REDIS_URL`, the state is in Redis, and all replicas share this limit. One caller may
    use at most half of it, and one value an eighth. A tool that wants to store more gets an error."""
    max_connections: int = Field(1000, ge=1)
    """Maximum number of open connections. When the limit is reached, a new connection replaces another one: first a
    connection whose client does not read its reply, then the one that has been idle longest. If all connections are in
    use, the new connection gets HTTP 503."""
    max_subscriptions: int = Field(500, ge=1)
    """Maximum number of subscriptions (`subscriptions/listen`, and event streams of sessions) in a replica. A further
    subscription gets HTTP 503. One caller has at most half of them. The limit is never more than three quarters of
    `MAX_CONNECTIONS`, so that calls and probes can still connect."""
    max_requests_per_connection: int = Field(1000, ge=0)
    """Number of requests after which the replica ends a connection with `Connection: close`, so that the client can
    connect to another replica. The number varies at random by up to 25 % per connection. 0: no limit."""
    max_connection_age_seconds: Seconds = Field(30, ge=0)
    """Age of a connection, in seconds, after which its next response ends it. The age varies at random by up to 25 %
    per connection. 0: no limit."""
    keep_alive_seconds: int = Field(75, ge=1)
    """Time after which the replica closes an idle connection, in seconds. Keep it below 900 s: after that time the mesh
    of Docker Swarm forgets an idle connection, and the client would get a reset."""
    drain_seconds: Seconds = Field(5, ge=0)
    """Length of the drain after SIGTERM, in seconds. During the drain `/readyz` returns HTTP 503. The replica still
    answers requests, and each response is the last of its connection. A second SIGTERM stops the replica at once."""
    shutdown_grace_seconds: int = Field(25, ge=0)
    """Time after the drain for the calls in flight to finish, in seconds. Then the replica cancels them."""
    loop_stall_seconds: Seconds = Field(30, ge=0)
    """Time limit for a blocked event loop, in seconds. For example, an `async` tool that blocks stops the loop. Beyond
    the limit, the replica logs where each thread is and exits, so that a new replica can replace it. 0: no limit."""

    mcp_replicas: int = Field(1, ge=1)
    """Number of replicas that serve under this name. If it is more than 1, `REQUEST_STATE_KEYS` is required, jobs need
    `JOBS_URL`, and subscriptions and `HANDSHAKE_SESSIONS` need `REDIS_URL`."""
    workers: int = Field(1, ge=1, le=64)
    """Number of processes of a replica, each on one core. They share its port, its log, its health and its metrics.
    Each process counts as a replica: 3 replicas of 2 processes are 6, and each limit of a replica holds for each
    process. Only `anyreplica run` starts them, and only a variable of the environment can set the number."""
    replicas_dns: str = Field("", max_length=253)
    """DNS name with one address per replica, such as `tasks.mcp` in Docker Swarm. Replicas count each other by this
    name, or in the Redis of `REDIS_URL`. With this setting, the replica keeps nothing in its own memory that other
    replicas need, also with `MCP_REPLICAS=1`, because the service can be scaled at any time."""
    request_state_keys: SecretStr | None = None
    """Keys for the request state: the encrypted and authenticated state that a multi-round tool keeps between two
    rounds. The same keys protect session ids (`HANDSHAKE_SESSIONS`). One key per line, newest first, each with at least
    32 characters and no spaces, the same on every replica. Empty: a single replica creates a key for itself."""
    request_state_seconds: Seconds = Field(600, gt=0)
    """Time limit for a client to answer one round of a multi-round tool, in seconds."""
    redis_url: SecretStr | None = None
    """URL of the Redis that replicas share: `redis://…` or `redis+sentinel://…`. Replicas share change events, used
    request states, rate limits, nonces of signatures, cached results, and the answers of clients to requests of tools.
    Empty: replicas share nothing."""

    @property
    def is_single(self) -> bool:
        """Whether this process is the only one that serves, and stays the only one."""
        return self.planned == 1 and not self.replicas_dns

    @property
    def planned(self) -> int:
        """Planned number of replicas. Each process of a replica counts."""
        return self.mcp_replicas * self.workers

    @field_validator("json_response", mode="before")
    @classmethod
    def _word(cls, value: object) -> object:
        words = {"1": "true", "yes": "true", "on": "true", "0": "false", "no": "false", "off": "false"}
        return words.get(value.lower(), value.lower()) if isinstance(value, str) else value

    @field_validator("log_level", mode="before")
    @classmethod
    def _level(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        return {"WARN": "WARNING", "FATAL": "CRITICAL"}.get(value.upper(), value.upper())

    @field_validator("mcp_name")
    @classmethod
    def _name(cls, value: str) -> str:
        if not _NAME.fullmatch(value):
            raise ValueError("use 1 to 64 letters, digits, '.', '_' or '-'; the first must be a letter or a digit")
        return value

    @field_validator("replica_name")
    @classmethod
    def _replica_name(cls, value: str) -> str:
        if not _REPLICA_NAME.fullmatch(value):
            raise ValueError("use at most 128 letters, digits, '.', '_' or '-'")
        return value

    @field_validator("mcp_components")
    @classmethod
    def _importable(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not _PACKAGE.fullmatch(name):
                raise ValueError(f"{name!r} is not the name of a package; write it like server or examples.analytics")
        return value

    @field_validator("cors_origins")
    @classmethod
    def _origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for origin in value:
            if not _ORIGIN.fullmatch(origin):
                text = "write it like https://app.example.com (with the port if it has one)"
                raise ValueError(f"{origin!r} is not an origin; {text}")
        return value

    @field_validator("request_state_keys")
    @classmethod
    def _strong(cls, value: SecretStr | None) -> SecretStr | None:
        keys = _ring(value)
        if any(len(key.encode()) < 32 for key in keys):
            raise ValueError("a key is shorter than 32 characters; openssl rand -hex 32 makes a key")
        if len(set(keys)) < len(keys):
            raise ValueError("the same key occurs twice; remove one of them")
        return value

    @property
    def subscriptions(self) -> int:
        """Maximum number of subscriptions: `MAX_SUBSCRIPTIONS`, but at most three quarters of `MAX_CONNECTIONS`."""
        return min(self.max_subscriptions, max(1, self.max_connections * 3 // 4))

    @property
    def request_state_ring(self) -> list[str]:
        """Keys of request states, newest first. The first key encrypts new states, and all keys decrypt states."""
        return _ring(self.request_state_keys)


def _ring(value: SecretStr | None) -> list[str]:
    return value.get_secret_value().replace(",", " ").split() if value is not None else []


_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)+")
_LONGEST_PATH = 100


class PathSettings(SettingsGroup):
    """Paths of a replica."""

    mcp_path: str = "/mcp"
    """Path of the MCP endpoint. Clients then connect to this path."""
    liveness_path: str = "/healthz"
    """Path of the liveness probe, also of a worker. Move it if your server has a route at this path."""
    readiness_path: str = "/readyz"
    """Path of the readiness probe, also of a worker. Move it if your server has a route at this path."""
    metrics_path: str = "/metrics"
    """Path of the metrics for Prometheus and the autoscaler. Move it if your server has a route at this path."""
    protect_custom_routes: bool = False
    """Whether the routes that a server adds with `@mcp.custom_route` need authentication, as `MCP_PATH` does. `false`:
    everybody may use them, as FastMCP documents it, for example for webhooks and OAuth callbacks."""

    @field_validator("mcp_path", "liveness_path", "readiness_path", "metrics_path", mode="after")
    @classmethod
    def _path(cls, value: str) -> str:
        path = value.rstrip("/")
        if len(path) > _LONGEST_PATH or not _PATH.fullmatch(path) or {".", ".."} & set(path.split("/")):
            raise ValueError("write it like /mcp: a slash, and then letters, digits, '.', '_', '~', '-' and slashes")
        return path

    @model_validator(mode="after")
    def _different(self) -> Self:
        paths = {
            "MCP_PATH": self.mcp_path,
            "LIVENESS_PATH": self.liveness_path,
            "READINESS_PATH": self.readiness_path,
            "METRICS_PATH": self.metrics_path,
        }
        seen: dict[str, str] = {}
        for name, path in paths.items():
            if other := seen.get(path):
                raise ValueError(f"{name}={path}: {other} has the same path; choose another one")
            seen[path] = name
        return self
