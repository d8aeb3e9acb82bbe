"""Settings: every variable with its type, default, meaning and check.

A value comes from the environment or, failing that, from a file of the variable's name (any case) in
the secrets folder, which is where Docker mounts secrets. README's table is made from this class:
`python -m server.config` prints it.
"""

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict, SettingsError

from server.errors import StartupError

# A character outside of these can't be sent in an Authorization header as one token (RFC 9110, 5.6.2; RFC 6750, 2.1).
_TOKEN = re.compile(r"[\x21-\x7e]+")
_PACKAGE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


def _split(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _ring(value: SecretStr | None) -> list[str]:
    return value.get_secret_value().replace(",", " ").split() if value is not None else []


Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
Seconds = Annotated[float, Field(allow_inf_nan=False)]


class Settings(BaseSettings):
    """The server's settings; the variable is the field's name in capitals."""

    model_config = SettingsConfigDict(env_ignore_empty=True, extra="ignore", frozen=True)

    mcp_port: int = Field(8000, ge=1, le=65535, description="TCP port that a replica listens on.")
    mcp_host: str = Field(
        "127.0.0.1",
        description="Address that a replica binds: by default only this machine can connect. The image sets `0.0.0.0`.",
    )
    mcp_name: str = Field(
        "template-mcp",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
        description="The server's name, the same on every replica: letters, digits, `.`, `_`, `-`.",
    )
    replica_name: str = Field(
        "",
        pattern=r"^[A-Za-z0-9._-]{0,128}$",
        description="This replica's name in `X-Served-By`. Empty: the host's name (in a container, its id).",
    )
    auth_enabled: bool = Field(
        False, description="Ask every caller of `/mcp` for `Authorization: Bearer <AUTH_TOKEN>`."
    )
    auth_token: SecretStr | None = Field(None, description="The bearer token. Required with `AUTH_ENABLED=true`.")
    stateless_http: bool = Field(
        True,
        description="Keep no session between requests. `false` needs one replica, or affinity by `Mcp-Session-Id`.",
    )
    json_response: Literal["auto", "true", "false"] = Field(
        "auto",
        description="Whether a reply is one JSON document. `auto`: unless the caller takes an event stream and the "
        "call reports progress or logs something; `true`: always; `false`: as the MCP SDK does it, which streams.",
    )
    auto_discover: bool = Field(True, description="Serve what `MCP_COMPONENTS` holds; `false`: nothing.")
    mcp_components: Words = Field(
        ("server",),
        description="Packages to discover, comma-separated: their `tools`, `resources`, `prompts` and `jobs` folders, "
        "or all of a package that has none of these.",
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = Field(
        "INFO", description="The least level that is logged."
    )
    log_format: Literal["text", "json"] = Field("text", description="Log lines for people, or one JSON object a line.")
    debug_errors: bool = Field(
        False,
        description="Show callers why a tool failed. Off: they read that it failed, and the log says why.",
    )
    allowed_hosts: Words = Field(
        (),
        description="Names that a request's `Host` may carry besides loopback's, comma-separated, `*` as wildcard. "
        "Empty: checked on loopback only.",
    )
    allowed_origins: Words = Field(
        (),
        description="Values of `Origin` that are let through, comma-separated, `*` as wildcard. "
        "Empty: only pages of this machine on loopback, and callers that are no browser.",
    )
    max_body_bytes: int = Field(4 * 1024 * 1024, ge=1024, description="Largest request body; beyond it: 413.")
    call_timeout_seconds: Seconds = Field(
        60,
        gt=0,
        description="Time for a tool, resource or prompt that names no timeout of its own; then an error.",
    )
    tool_threads: int = Field(
        16, ge=1, description="Calls of one synchronous (`def`) tool that run at once; more wait in line."
    )
    max_head_bytes: int = Field(64 * 1024, ge=1024, description="Largest head of a request; beyond it: 431.")
    receive_timeout_seconds: Seconds = Field(
        30, gt=0, description="Time for a request's head to arrive, and then for its body; beyond it: 408."
    )
    max_in_flight: int = Field(
        100,
        ge=1,
        description="Calls that a replica works on at once; one more is answered at once with 503 and `Retry-After`. "
        "With the largest bodies so many take 400 MB, which is what `stack.yml`'s 512 MB leave.",
    )
    max_connections: int = Field(
        1000,
        ge=1,
        description="Open connections. One more takes the place of the one that has been idle for longest; if none "
        "is, it is refused with 503.",
    )
    max_requests_per_connection: int = Field(
        1000,
        ge=0,
        description="Requests, give or take a quarter, after which a connection is ended with `Connection: close`, so "
        "that its client comes to another replica. 0: any number.",
    )
    max_connection_age_seconds: Seconds = Field(
        30,
        ge=0,
        description="Time, give or take a quarter, after which a connection's next response ends it. 0: never.",
    )
    keep_alive_seconds: int = Field(
        75,
        ge=1,
        description="Time after which an idle connection is closed. Below the 900 s after which Swarm's mesh forgets "
        "one, or its client would be reset.",
    )
    drain_seconds: Seconds = Field(
        5,
        ge=0,
        description="Time after SIGTERM in which `/readyz` says 503 and requests are still served, each as its "
        "connection's last. The same signal once more stops at once.",
    )
    shutdown_grace_seconds: int = Field(
        25, ge=0, description="Time after the drain for calls in flight; then they are cancelled."
    )
    loop_stall_seconds: Seconds = Field(
        30,
        ge=0,
        description="A replica whose event loop stands still this long (an `async` tool that blocks) logs where, "
        "and exits to be replaced. 0: never.",
    )

    mcp_replicas: int = Field(
        1, ge=1, description="How many replicas serve under this name. More than one need `REQUEST_STATE_KEYS`."
    )
    request_state_keys: SecretStr | None = Field(
        None,
        description="Keys that seal what multi-round tools remember between rounds, 32 characters or more each, no "
        "spaces, one a line, newest first, the same on every replica. Empty: a single replica makes one for itself.",
    )
    request_state_seconds: Seconds = Field(
        600, gt=0, description="Time that a client has for each round of a multi-round tool."
    )
    redis_url: SecretStr | None = Field(
        None,
        description="The Redis that replicas share (`redis://…`): change events, and which request states were used.",
    )

    jobs_url: SecretStr = Field(
        SecretStr("memory://"),
        description="Where jobs wait: `memory://`, in the one replica there is, or a Redis (`redis://…`) that replicas "
        "and workers share.",
    )
    jobs_concurrency: int = Field(10, ge=1, description="Jobs that a worker runs at once.")
    jobs_max_pending: int = Field(10_000, ge=1, description="Jobs that may wait or run; one more is refused with 429.")
    jobs_max_attempts: int = Field(
        3, ge=1, description="How often a job is begun whose worker is lost each time; then it has failed."
    )
    jobs_redelivery_seconds: Seconds = Field(
        30,
        ge=0.5,
        description="Time without a sign of life after which a worker's jobs go to another; a third more at most.",
    )
    jobs_timeout_seconds: Seconds = Field(600, gt=0, description="Time for a job that names no timeout of its own.")
    jobs_retention_seconds: Seconds = Field(
        3600, ge=1, description="Time that a finished job is kept which names no retention of its own."
    )
    jobs_max_result_bytes: int = Field(
        1024 * 1024, ge=1, description="Largest result of a job, as JSON; beyond it the job has failed."
    )
    jobs_wait_seconds: Seconds = Field(
        5, ge=0, description="Time that a call of a job's own tool waits for the result, before it tells how to get it."
    )
    jobs_unknown_seconds: Seconds = Field(
        120,
        ge=0,
        description="Time that a job waits for a worker that knows its name, as during an update; then it has failed.",
    )

    @field_validator("json_response", mode="before")
    @classmethod
    def _word(cls, value: object) -> object:
        words = {"1": "true", "yes": "true", "on": "true", "0": "false", "no": "false", "off": "false"}
        return words.get(value.lower(), value.lower()) if isinstance(value, str) else value

    @field_validator("log_level", mode="before")
    @classmethod
    def _upper(cls, value: object) -> object:
        return value.upper() if isinstance(value, str) else value

    @field_validator("auth_token")
    @classmethod
    def _sendable(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not _TOKEN.fullmatch(value.get_secret_value()):
            raise ValueError("one or more visible ASCII characters, no spaces: nothing else fits a header")
        return value

    @field_validator("mcp_components")
    @classmethod
    def _importable(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not _PACKAGE.fullmatch(name):
                raise ValueError(f"{name!r} is not a package's name (like server or examples.analytics)")
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

    @field_validator("jobs_url")
    @classmethod
    def _queue(cls, value: SecretStr) -> SecretStr:
        if not value.get_secret_value().startswith(("memory://", "redis://", "rediss://", "unix://")):
            raise ValueError("neither memory:// nor the URL of a Redis, like redis://:password@redis:6379/0")
        return value

    @property
    def jobs_in_process(self) -> bool:
        """Whether jobs wait and run in the replica itself."""
        return self.jobs_url.get_secret_value().startswith("memory://")

    @property
    def request_state_ring(self) -> list[str]:
        """The keys that seal request states, newest first; the first seals, all unseal."""
        return _ring(self.request_state_keys)

    @model_validator(mode="after")
    def _keys_for_replicas(self) -> Self:
        if self.mcp_replicas > 1 and not self.request_state_ring:
            raise ValueError(
                f"REQUEST_STATE_KEYS: required by MCP_REPLICAS={self.mcp_replicas}; "
                "set it, or mount a secret named request_state_keys (openssl rand -hex 32 makes one)"
            )
        return self

    @model_validator(mode="after")
    def _token_for_auth(self) -> Self:
        if self.auth_enabled and self.auth_token is None:
            raise ValueError("AUTH_TOKEN: required by AUTH_ENABLED=true; set it, or mount a secret named auth_token")
        return self


def load() -> Settings:
    """Read and check the settings.

    `SECRETS_DIR` (default `/run/secrets`) is the folder whose files stand in for variables.

    Raises:
        StartupError: a line for each variable that is wrong, by name; a secret's value is never shown.
    """
    named = os.environ.get("SECRETS_DIR")
    secrets = Path(named or "/run/secrets")
    if named and not secrets.is_dir():
        raise StartupError(f"SECRETS_DIR={named}: no such folder")
    try:
        return Settings(_secrets_dir=secrets if secrets.is_dir() else None)
    except (SettingsError, OSError, UnicodeError) as error:
        reason = error.__cause__ or error
        raise StartupError(f"{secrets}: a secret there can't be read as text: {reason}") from None
    except ValidationError as error:
        raise StartupError("\n".join(_line(problem) for problem in error.errors(include_url=False))) from None


def _line(problem: Mapping[str, Any]) -> str:
    message = str(problem["msg"]).removeprefix("Value error, ")
    if not problem["loc"]:
        return message
    field = str(problem["loc"][0])
    value = str(problem["input"])
    annotation = Settings.model_fields[field].annotation
    secret = SecretStr in (annotation, *getattr(annotation, "__args__", ()))
    shown = "" if secret else f"={value if value.isprintable() else ascii(value)}"
    return f"{field.upper()}{shown}: {message[:1].lower()}{message[1:]}"


def misspelt(environment: Mapping[str, str]) -> list[str]:
    """A sentence for each variable that looks like a setting and is none, such as AUTH_ENABLE."""
    known = {name.upper() for name in Settings.model_fields}
    found = []
    for name in sorted(environment.keys() - known):
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.85)
        if close and not name.startswith("MAKE"):
            found.append(f"{name} is no setting and has no effect; did you mean {close[0]}?")
    return found


def doubts(settings: Settings, replicas: int) -> list[str]:
    """A sentence for each combination that is allowed and seldom meant."""
    found = []
    if settings.auth_token is not None and not settings.auth_enabled:
        found.append("AUTH_TOKEN is set, but nobody is asked for it: AUTH_ENABLED is false.")
    if not settings.stateless_http and replicas > 1:
        found.append("STATELESS_HTTP=false with several replicas: a session is known to one of them only.")
    return found


def table() -> str:
    """All settings as a Markdown table, for README."""
    rows = ["| variable | default | meaning |", "| --- | --- | --- |"]
    for name, field in Settings.model_fields.items():
        default = field.default
        if isinstance(default, SecretStr):
            default = default.get_secret_value()
        if default in (None, "", ()):
            shown = ""
        elif isinstance(default, tuple):
            shown = f"`{','.join(default)}`"
        else:
            shown = f"`{str(default).lower() if isinstance(default, bool) else default}`"
        rows.append(f"| `{name.upper()}` | {shown} | {_choices(field.annotation)}{field.description} |")
    return "\n".join(rows)


def _choices(annotation: object) -> str:
    values = getattr(annotation, "__args__", ())
    if getattr(annotation, "__origin__", None) is Literal:
        return ", ".join(f"`{value}`" for value in values) + ". "
    return ""


if __name__ == "__main__":
    print(table())  # noqa: T201
