"""The page that lists every setting, from the classes in anyreplica.settings."""

from typing import Literal, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from anyreplica.settings import Settings
from anyreplica.settings.access import AccessSettings
from anyreplica.settings.downstream import DownstreamSettings
from anyreplica.settings.jobs import JobSettings
from anyreplica.settings.login import LoginSettings
from anyreplica.settings.paths import PathSettings
from anyreplica.settings.rate import RateSettings
from anyreplica.settings.replica import ReplicaSettings
from anyreplica.settings.sessions import SessionSettings
from anyreplica.settings.telemetry import AuditSettings, TelemetrySettings
from anyreplica.settings.words import SettingsGroup

_INTRODUCTION = """\
# Settings

Every setting is an environment variable. If the variable is not set, the server reads a file with the variable's name
(upper or lower case) in the secrets folder. That folder is `/run/secrets`, where Docker mounts secrets; `SECRETS_DIR`
names another one.

FastMCP's own `FASTMCP_HOST`, `FASTMCP_PORT`, `FASTMCP_STREAMABLE_HTTP_PATH`, `FASTMCP_LOG_LEVEL`,
`FASTMCP_HTTP_ALLOWED_HOSTS` and `FASTMCP_HTTP_ALLOWED_ORIGINS` are the defaults of `MCP_HOST`, `MCP_PORT`, `MCP_PATH`,
`LOG_LEVEL`, `ALLOWED_HOSTS` and `ALLOWED_ORIGINS`.

An empty variable counts as not set. An invalid value stops the start with exit code 3 and one line that names the
variable. `make check` checks all settings without serving. `make` sets `MCP_PORT` from its own variable `PORT`.

Lists are separated by commas. Times are in seconds, sizes in bytes.

Your own settings go into `server/config.py`; see [Tools and resources](../guides/tools-and-resources.md).

<!-- This page is generated from packages/anyreplica/src/anyreplica/settings. Edit the docstrings there and run `make
reference`. -->
"""

GROUPS: dict[str, type[SettingsGroup]] = {
    "Replica": ReplicaSettings,
    "Paths": PathSettings,
    "Requests to clients": SessionSettings,
    "Authentication": AccessSettings,
    "Login of users": LoginSettings,
    "Rate limits": RateSettings,
    "Audit log": AuditSettings,
    "Jobs": JobSettings,
    "Calls to APIs": DownstreamSettings,
    "Metrics and traces": TelemetrySettings,
}
"""Sections of the page, in this order."""


def page() -> str:
    """Return the page as Markdown."""
    parts = [_INTRODUCTION]
    parts += [f"## {title}\n\n{_table(group)}\n" for title, group in GROUPS.items()]
    return "\n".join(parts)


def _table(group: type[SettingsGroup]) -> str:
    rows = ["| variable | default | meaning |", "| --- | --- | --- |"]
    for name in group.model_fields:
        field = Settings.model_fields[name]
        rows.append(f"| `{name.upper()}` | {_default(field)} | {_meaning(field)} |")
    return "\n".join(rows)


def _default(field: FieldInfo) -> str:
    default = field.default
    if isinstance(default, SecretStr):
        default = default.get_secret_value()
    if default in (None, "", ()):
        return ""
    if isinstance(default, tuple):
        return f"`{','.join(default)}`"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _meaning(field: FieldInfo) -> str:
    meaning = " ".join((field.description or "").split())
    if get_origin(field.annotation) is Literal:
        choices = ", ".join(f"`{value}`" for value in get_args(field.annotation))
        meaning = f"One of {choices}. {meaning}"
    return meaning.replace("|", "\\|")
