"""Settings of traces."""

import re
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from pydantic import SecretStr, field_validator

from anyreplica.settings import CoreSettings

_HEADER = re.compile(r"\s*([A-Za-z0-9!#$%&'*+.^_`|~-]+)=([ -~]*)")
"""Pattern of a header: a name (RFC 9110, section 5.1), `=` and a value. The value may be percent-encoded, as in the
Baggage specification of the W3C."""


class TracingSettings(CoreSettings):
    """Settings of traces. The OpenTelemetry SDK reads its other variables from the environment only."""

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


def _headers(given: SecretStr | None) -> Mapping[str, str]:
    headers = {}
    for pair in given.get_secret_value().split(",") if given else ():
        if pair.strip():
            header = _HEADER.fullmatch(pair)
            if header is None:
                raise ValueError("not a list of headers; write it like name=value,name=value")
            headers[header[1]] = unquote(header[2]).strip()
    return headers
