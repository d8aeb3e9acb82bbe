"""The settings of the core: each variable with its type, default, meaning and check. Features add their own to them.

The value of a variable comes from the environment. If the variable is unset, the value comes from a file of the same
name (upper or lower case) in the secrets folder. Docker mounts secrets there. The last source is FastMCP's own
variables: see `of_fastmcp`.
"""

import difflib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self, get_args

from pydantic import SecretStr, ValidationError, model_validator
from pydantic_settings import SettingsConfigDict, SettingsError

from anyreplica.settings import of_fastmcp
from anyreplica.settings.access import AccessSettings
from anyreplica.settings.errors import StartupError
from anyreplica.settings.rate import RateSettings
from anyreplica.settings.replica import PathSettings, ReplicaSettings


class CoreSettings(RateSettings, AccessSettings, PathSettings, ReplicaSettings, of_fastmcp.WithFastMcp):
    """The settings that the core reads. The settings of a feature are a subclass in the folder of the feature."""

    model_config = SettingsConfigDict(env_ignore_empty=True, extra="ignore", frozen=True)

    @model_validator(mode="after")
    def _nothing_missing(self) -> Self:
        if self.mcp_replicas > 1 and not self.request_state_ring:
            raise ValueError(
                f"REQUEST_STATE_KEYS: required by MCP_REPLICAS={self.mcp_replicas}; "
                "set it, or mount a secret named request_state_keys (openssl rand -hex 32 makes a key)"
            )
        if not self.stateless_http:
            chosen = self.handshake_sessions
            if "handshake_sessions" in self.model_fields_set and chosen != "full":
                raise ValueError(f"HANDSHAKE_SESSIONS={chosen}: STATELESS_HTTP=false asks for full; unset one of them")
            self.__dict__["handshake_sessions"] = "full"  # the model is frozen for all others
        if self.handshake_sessions != "off":
            self._check_sessions()
        return self

    def _check_sessions(self) -> None:
        setting = f"HANDSHAKE_SESSIONS={self.handshake_sessions}" if self.stateless_http else "STATELESS_HTTP=false"
        if not self.is_single and self.redis_url is None:
            several = {"MCP_REPLICAS": self.mcp_replicas, "WORKERS": self.workers, "REPLICAS_DNS": self.replicas_dns}
            name, value = next((name, value) for name, value in several.items() if value not in (1, ""))
            raise ValueError(f"REDIS_URL: required by {setting} with {name}={value}; set it")
        if self.json_response == "true":
            raise ValueError(f"{setting}: needs JSON_RESPONSE=auto or false, because a request to a client is an event")

    def doubts(self) -> Iterator[str]:
        """Yield a sentence for each combination of settings that is allowed but is usually a mistake."""
        yield from ()

    @classmethod
    def load(cls) -> Self:
        """Read and check the settings.

        The variable `SECRETS_DIR` names the folder of secrets. Its default is `/run/secrets`.

        Raises:
            StartupError: a variable is invalid. The text has one line per invalid variable, with its name and never
                with the value of a secret.
        """
        named = os.environ.get("SECRETS_DIR")
        secrets = Path(named or "/run/secrets")
        if named and not secrets.is_dir():
            raise StartupError(f"SECRETS_DIR={named}: no such folder; create it, or unset SECRETS_DIR")
        try:
            return cls(_secrets_dir=secrets if secrets.is_dir() else None)
        except (SettingsError, OSError, UnicodeError) as error:
            reason = error.__cause__ or error
            raise StartupError(f"{secrets}: a secret in this folder cannot be read as text: {reason}") from None
        except ValidationError as error:
            lines = (_line(problem, cls) for problem in error.errors(include_url=False))
            raise StartupError("\n".join(lines)) from None


_PLAIN = {
    "int_parsing": "must be a whole number",
    "float_parsing": "must be a number",
    "bool_parsing": "must be true or false",
    "missing": "required; set it",
}
"""Messages for operators, in place of pydantic's messages of these types."""


def _line(problem: Mapping[str, Any], settings: type[CoreSettings]) -> str:
    message = str(problem["msg"]).removeprefix("Value error, ")
    message = _PLAIN.get(problem["type"], message.replace("Input should be", "must be", 1))
    if not problem["loc"]:
        return message
    field = str(problem["loc"][0])
    value = str(problem["input"])[:200]
    known = settings.model_fields.get(field)  # None: it has an alias
    secret = known is None or SecretStr in (known.annotation, *get_args(known.annotation))
    # For a missing field, pydantic's input is the values of all fields.
    hidden = secret or problem["type"] == "missing"
    shown = "" if hidden else f"={value if value.isprintable() else ascii(value)}"
    return f"{of_fastmcp.name_of(field, problem['input'])}{shown}: {message[:1].lower()}{message[1:]}"


def misspelt(environment: Mapping[str, str], settings: CoreSettings) -> list[str]:
    """Return a sentence for each variable that looks like a misspelt setting, such as AUTH_ENABLE."""
    known = {name.upper() for name in type(settings).model_fields}
    found = []
    for name in sorted(environment.keys() - known):
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.85)
        if close and not name.startswith(("MAKE", "OTEL_")):  # OTEL_* variables belong to the OpenTelemetry SDK
            found.append(f"{name} is not a setting and has no effect; did you mean {close[0]}?")
    return found
