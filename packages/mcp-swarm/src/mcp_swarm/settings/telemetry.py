"""What a replica tells of itself and of its calls, and to whom."""

import re
from collections.abc import Mapping
from typing import Literal
from urllib.parse import unquote, urlsplit

from pydantic import SecretStr, field_validator

from mcp_swarm.settings.words import SettingsGroup, WordList

_HEADER = re.compile(r"\s*([A-Za-z0-9!#$%&'*+.^_`|~-]+)=([ -~]*)")
"""A name (RFC 9110, section 5.1) and a value, which may be percent-encoded as in W3C's Baggage."""


class TelemetrySettings(SettingsGroup):
    """Of metrics and traces. OpenTelemetry's SDK reads its other variables itself, from the environment only."""

    metrics_token: SecretStr | None = None
    """What Prometheus shows as `Authorization: Bearer` at `/metrics`. Empty: anybody may look, or, with `AUTH_ENABLED`,
    every caller."""
    otel_exporter_otlp_endpoint: str = ""
    """Collector that takes traces by OTLP over HTTP, as `http://collector:4318`; needs the extra `traces`. The SDK's
    other `OTEL_*` variables (sampler, limits, certificate) count, too. Empty: no traces."""
    otel_exporter_otlp_headers: SecretStr | None = None
    """Headers that the collector asks for, as `Authorization=Bearer%20…`."""

    @field_validator("otel_exporter_otlp_endpoint")
    @classmethod
    def _endpoint(cls, value: str) -> str:
        url = urlsplit(value)  # a ValueError of its own for brackets that don't match
        if value and not (url.scheme in ("http", "https") and url.hostname):
            raise ValueError("it isn't like http://collector:4318")
        return value.rstrip("/")

    @field_validator("otel_exporter_otlp_headers")
    @classmethod
    def _pairs(cls, value: SecretStr | None) -> SecretStr | None:
        _headers(value)
        return value

    @property
    def otel_headers(self) -> Mapping[str, str]:
        """The headers that the collector asks for."""
        return _headers(self.otel_exporter_otlp_headers)


class AuditSettings(SettingsGroup):
    """Of the audit log."""

    audit_log: str = ""
    """Where a line of each call goes: `stdout`, or a file of this replica's own. Empty: nowhere."""
    audit_on_failure: Literal["drop", "refuse"] = "drop"
    """When the audit log can't be written: lose lines and say how many, or refuse calls with 503."""
    audit_arguments: WordList = ()
    """Arguments that are shown in it, as patterns of `tool.argument`; of all others there is a digest."""
    audit_key: SecretStr | None = None
    """Key of digests and chain, so that who can write the log can't make a chain that holds."""


def _headers(given: SecretStr | None) -> Mapping[str, str]:
    headers = {}
    for pair in given.get_secret_value().split(",") if given else ():
        if pair.strip():
            header = _HEADER.fullmatch(pair)
            if header is None:
                raise ValueError("it isn't like name=value,name=value")
            headers[header[1]] = unquote(header[2]).strip()
    return headers
