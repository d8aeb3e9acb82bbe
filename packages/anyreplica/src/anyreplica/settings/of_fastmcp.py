"""FastMCP's own variables: `FASTMCP_*` in the environment, or in the file `.env` of the working directory.

FastMCP reads them when it is imported. `fastmcp run` takes the address, the path, the allowed hosts and the log level
from them, so those are the defaults of our settings. Most others work in FastMCP itself. `without_effect` names the
rest.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from anyreplica.settings.errors import StartupError
from anyreplica.settings.replica import ReplicaSettings
from anyreplica.settings.words import SettingsGroup

OBEYED = {
    "host": "mcp_host",
    "port": "mcp_port",
    "streamable_http_path": "mcp_path",
    "log_level": "log_level",
    "http_allowed_hosts": "allowed_hosts",
    "http_allowed_origins": "allowed_origins",
}
"""Settings of FastMCP that are defaults of ours."""

INSTEAD: Mapping[str, tuple[str, Callable[[ReplicaSettings], object]]] = {
    "debug": ("DEBUG_ERRORS", lambda _: False),
    "http_host_origin_protection": ("ALLOWED_HOSTS", lambda _: "auto"),
    "json_response": ("JSON_RESPONSE", lambda settings: settings.json_response == "true"),
    "log_enabled": ("LOG_LEVEL", lambda _: True),
    "stateless_http": ("STATELESS_HTTP", lambda settings: settings.stateless_http),
}
"""Settings of FastMCP that anyreplica does not read: our setting, and the value that a replica behaves like."""


class FastMcpSource(PydanticBaseSettingsSource):
    """The source of settings with the lowest priority: what `fastmcp run` would use."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002
        """Return the value of one field."""
        return values().get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        """Return the values of all fields."""
        return values()


class WithFastMcp(SettingsGroup):
    """Settings whose last source is the variables of FastMCP."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources, highest priority first."""
        return init_settings, env_settings, dotenv_settings, file_secret_settings, FastMcpSource(settings_cls)


def load() -> None:
    """Let FastMCP read its settings.

    Raises:
        StartupError: one of its variables is invalid. The text has one line per variable.
    """
    try:
        import fastmcp  # noqa: F401, PLC0415  # it takes a second, and many commands do not need it
    except ValidationError as error:
        raise StartupError("\n".join(_line(problem) for problem in error.errors(include_url=False))) from None


def values() -> dict[str, Any]:
    """Return the values of our settings that FastMCP's variables have set; {} if FastMCP is not loaded."""
    found = _of_fastmcp()
    return {ours: found[name] for name, ours in OBEYED.items() if name in found}


def name_of(field: str, value: object) -> str:
    """Return the name of the variable that a value of our setting comes from."""
    theirs = [name for name, ours in OBEYED.items() if ours == field and _of_fastmcp().get(name, ...) == value]
    return f"FASTMCP_{theirs[0].upper()}" if theirs else field.upper()


def without_effect(settings: ReplicaSettings) -> list[str]:
    """Return a sentence for each variable of FastMCP that would change what a server does, but has no effect."""
    found = _of_fastmcp()
    sentences = []
    if found.get("transport") == "sse":
        sentences.append("FASTMCP_TRANSPORT=sse has no effect; clients must use HTTP (POST /mcp).")
    if "http_session_idle_timeout" in found:
        sentences.append("FASTMCP_HTTP_SESSION_IDLE_TIMEOUT has no effect; set HANDSHAKE_SESSION_SECONDS instead.")
    for name, (ours, value) in INSTEAD.items():
        if name in found and found[name] != value(settings) and ours.lower() not in settings.model_fields_set:
            sentences.append(f"FASTMCP_{name.upper()} has no effect; set {ours} instead.")
    return sentences


def _of_fastmcp() -> dict[str, Any]:
    """Return the settings of FastMCP that a variable or the server's own code has set."""
    settings = getattr(sys.modules.get("fastmcp"), "settings", None)
    return {name: getattr(settings, name) for name in getattr(settings, "model_fields_set", ())}


def _line(problem: Mapping[str, Any]) -> str:
    """Return the line about an invalid variable. It has no value, because the variable may be a secret."""
    return f"FASTMCP_{'__'.join(map(str, problem['loc'])).upper()}: {problem['msg'][:1].lower()}{problem['msg'][1:]}"
