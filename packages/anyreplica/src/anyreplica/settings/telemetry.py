"""Settings of metrics, traces and the audit log."""

import re
from collections.abc import Mapping
from typing import Literal
from urllib.parse import unquote, urlsplit

from pydantic import SecretStr, field_validator

from anyreplica.settings.words import SettingsGroup, WordList

_HEADER = re.compile(r"\s*([A-Za-z0-9!#$%&'*+.^_`|~-]+)=([ -~]*)")
"""Pattern of a header: a name (RFC 9110, section 5.1), `=` and a value. The value may be percent-encoded, as in the
Baggage specification of the W3C."""


class TelemetrySettings(SettingsGroup):
    """Settings of metrics and traces. The OpenTelemetry SDK reads its other variables from the environment only."""

    metrics_token: SecretStr | None = None
    """Token that Prometheus must send to `/metrics`, as `Authorization: Bearer`. Empty: everybody may read the metrics,
    or, with `AUTH_ENABLED`, every authenticated caller."""
    otel_exporter_otlp_endpoint: str = ""
    """URL of the collector that gets the traces, by OTLP over HTTP, such as `http://collector:4318`. Traces need the
    package's extra `traces`. The other `OTEL_*` variables of the OpenTelemetry SDK (sampler, limits, certificate) also
    apply. Empty: no traces."""
    otel_exporter_otlp_headers: SecretStr | None = None
    """Headers that the replica sends to the collector, such as `Authorization=Bearer%20…`. Separate several headers
    with commas."""

    @field_validator("otel_exporter_otlp_endpoint")
    @classmethod
    def _endpoint(cls, value: str) -> str:
        url = urlsplit(value)  # it raises a ValueError for unmatched brackets
        if value and not (url.scheme in ("http", "https") and url.hostname):
            raise ValueError("not the URL of a collector; write it like http://collector:4318")
        return value.rstrip("/")

    @field_validator("otel_exporter_otlp_headers")
    @classmethod
    def _pairs(cls, value: SecretStr | None) -> SecretStr | None:
        _headers(value)
        return value

    @property
    def otel_headers(self) -> Mapping[str, str]:
        """Headers that the replica sends to the collector."""
        return _headers(self.otel_exporter_otlp_headers)


class AuditSettings(SettingsGroup):
    """Settings of the audit log."""

    audit_log: str = ""
    """Destination of the audit log, which has one entry per call: `stdout`, or the path of a file that only this
    replica writes. Empty: disabled."""
    audit_on_failure: Literal["drop", "refuse"] = "drop"
    """Behavior when the replica cannot write the audit log. `drop`: entries are lost, and the log says how many.
    `refuse`: calls get HTTP 503."""
    audit_arguments: WordList = ()
    """Arguments that the audit log shows, as patterns of `tool.argument`, comma-separated. Of every other argument,
    the audit log has only a digest."""
    audit_key: SecretStr | None = None
    """Secret key of the digests and of the hash chain in the audit log, with at least 32 characters. Without the key,
    nobody can write entries that pass the verification. Empty: the digests and the chain use no key."""


def _headers(given: SecretStr | None) -> Mapping[str, str]:
    headers = {}
    for pair in given.get_secret_value().split(",") if given else ():
        if pair.strip():
            header = _HEADER.fullmatch(pair)
            if header is None:
                raise ValueError("not a list of headers; write it like name=value,name=value")
            headers[header[1]] = unquote(header[2]).strip()
    return headers
