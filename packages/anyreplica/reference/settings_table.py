"""The page that lists every setting, from the classes in anyreplica.settings and in the folders of the features."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from anyreplica import Settings
from anyreplica.features.audit.settings import AuditSettings
from anyreplica.features.cache.settings import CacheSettings
from anyreplica.features.console.settings import ConsoleSettings
from anyreplica.features.downstream.settings import DownstreamSettings
from anyreplica.features.jobs.settings import JobSettings
from anyreplica.features.keys.settings import KeySettings
from anyreplica.features.login.settings import LoginSettings
from anyreplica.features.metrics.settings import MetricsSettings
from anyreplica.features.ratelimit.settings import RateLimitSettings
from anyreplica.features.server_card.settings import ServerCardSettings
from anyreplica.features.sessions.settings import SessionSettings
from anyreplica.features.signatures.settings import SignatureSettings
from anyreplica.features.tracing.settings import TracingSettings
from anyreplica.settings import CoreSettings
from anyreplica.settings.access import AccessSettings
from anyreplica.settings.rate import RateSettings
from anyreplica.settings.replica import PathSettings, ReplicaSettings
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

GROUPS: dict[str, Sequence[type[SettingsGroup]]] = {
    "Replica": (ReplicaSettings,),
    "Paths": (PathSettings,),
    "Requests to clients": (SessionSettings,),
    "Console": (ConsoleSettings,),
    "Discovery": (ServerCardSettings,),
    "Authentication": (AccessSettings, KeySettings, SignatureSettings),
    "Login of users": (LoginSettings,),
    "Rate limits": (RateSettings, RateLimitSettings),
    "Audit log": (AuditSettings,),
    "Cache": (CacheSettings,),
    "Jobs": (JobSettings,),
    "Calls to APIs": (DownstreamSettings,),
    "Metrics and traces": (MetricsSettings, TracingSettings),
}
"""Sections of the page, in this order."""
_ELSEWHERE = {
    "handshake_sessions": "Requests to clients",
    "trusted_proxies": "Rate limits",
    "forward_headers": "Calls to APIs",
}
"""Settings of the core that come first in the section of a feature, where readers look for them."""


def page() -> str:
    """Return the page as Markdown."""
    parts = [_INTRODUCTION]
    for title, groups in GROUPS.items():
        names = [name for name, section in _ELSEWHERE.items() if section == title]
        names += [name for group in groups for name in _own_fields(group) if name not in _ELSEWHERE]
        parts.append(f"## {title}\n\n{_table(names)}\n")
    return "\n".join(parts)


def _own_fields(group: type[SettingsGroup]) -> Iterator[str]:
    """Yield the names of the fields that a group adds. The settings of a feature also have those of the core."""
    inherited = CoreSettings.model_fields if issubclass(group, CoreSettings) else {}
    yield from (name for name in group.model_fields if name not in inherited)


def _table(names: Iterable[str]) -> str:
    rows = ["| variable | default | meaning |", "| --- | --- | --- |"]
    for name in names:
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
