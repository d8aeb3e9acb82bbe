"""Settings: every variable with its type, default, meaning and check.

A value comes from the environment or, failing that, from a file of the variable's name (any case) in
the secrets folder, which is where Docker mounts secrets.
"""

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, get_args

from pydantic import SecretStr, ValidationError, model_validator
from pydantic_settings import SettingsConfigDict, SettingsError

from mcp_swarm.settings.access import AccessSettings
from mcp_swarm.settings.downstream import DownstreamSettings
from mcp_swarm.settings.errors import StartupError
from mcp_swarm.settings.jobs import JobSettings
from mcp_swarm.settings.rate import RateSettings
from mcp_swarm.settings.replica import ReplicaSettings
from mcp_swarm.settings.telemetry import AuditSettings, TelemetrySettings


class Settings(
    TelemetrySettings,
    DownstreamSettings,
    JobSettings,
    AuditSettings,
    RateSettings,
    AccessSettings,
    ReplicaSettings,
):
    """The server's settings. Each is an environment variable, or a secret file: the field's name in capitals.

    Add your own in a subclass.

    Example:

        from pydantic import Field, SecretStr

        import mcp_swarm

        class Settings(mcp_swarm.Settings):
            weather_key: SecretStr = Field(description="Key of the weather API.")

        key = Settings.load().weather_key.get_secret_value()
    """

    model_config = SettingsConfigDict(env_ignore_empty=True, extra="ignore", frozen=True)

    @model_validator(mode="after")
    def _nothing_missing(self) -> Self:
        if self.mcp_replicas > 1 and not self.request_state_ring:
            raise ValueError(
                f"REQUEST_STATE_KEYS: required by MCP_REPLICAS={self.mcp_replicas}; "
                "set it, or mount a secret named request_state_keys (openssl rand -hex 32 makes one)"
            )
        if self.auth_enabled and not self.asks_who:
            raise ValueError(
                "AUTH_TOKEN, API_KEYS_FILE or AUTH_JWT_ISSUER: required by AUTH_ENABLED=true; "
                "set one, or mount a secret named auth_token"
            )
        return self

    @classmethod
    def load(cls) -> Self:
        """Read and check the settings.

        `SECRETS_DIR` (default `/run/secrets`) is the folder whose files stand in for variables.

        Raises:
            StartupError: one line per variable that is wrong, with its name. A secret's value is never shown.
        """
        named = os.environ.get("SECRETS_DIR")
        secrets = Path(named or "/run/secrets")
        if named and not secrets.is_dir():
            raise StartupError(f"SECRETS_DIR={named}: no such folder")
        try:
            return cls(_secrets_dir=secrets if secrets.is_dir() else None)
        except (SettingsError, OSError, UnicodeError) as error:
            reason = error.__cause__ or error
            raise StartupError(f"{secrets}: a secret there can't be read as text: {reason}") from None
        except ValidationError as error:
            lines = (_line(problem, cls) for problem in error.errors(include_url=False))
            raise StartupError("\n".join(lines)) from None


def _line(problem: Mapping[str, Any], settings: type[Settings]) -> str:
    message = str(problem["msg"]).removeprefix("Value error, ")
    if not problem["loc"]:
        return message
    field = str(problem["loc"][0])
    value = str(problem["input"])[:200]
    known = settings.model_fields.get(field)  # None: it has an alias
    secret = known is None or SecretStr in (known.annotation, *get_args(known.annotation))
    # The input of what is missing is all that was given.
    hidden = secret or problem["type"] == "missing"
    shown = "" if hidden else f"={value if value.isprintable() else ascii(value)}"
    return f"{field.upper()}{shown}: {message[:1].lower()}{message[1:]}"


def misspelt(environment: Mapping[str, str], settings: Settings) -> list[str]:
    """A sentence for each variable that looks like a setting and is none, such as AUTH_ENABLE."""
    known = {name.upper() for name in type(settings).model_fields}
    found = []
    for name in sorted(environment.keys() - known):
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.85)
        if close and not name.startswith(("MAKE", "OTEL_")):  # the last are the SDK's own
            found.append(f"{name} is no setting and has no effect; did you mean {close[0]}?")
    return found


def doubts(settings: Settings, replicas: int) -> list[str]:
    """A sentence for each combination that is allowed and seldom meant."""
    found = []
    if settings.asks_who and not settings.auth_enabled:
        found.append(f"{settings.asks_who} set, but nobody is asked who they are: AUTH_ENABLED is false.")
    if not settings.stateless_http and replicas > 1:
        found.append("STATELESS_HTTP=false with several replicas: a session is known to one of them only.")
    return found
