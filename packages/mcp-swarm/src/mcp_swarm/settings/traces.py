"""Where traces go."""

import re
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings

_HEADER = re.compile(r"\s*([A-Za-z0-9!#$%&'*+.^_`|~-]+)=([ -~]*)")
"""A name (RFC 9110, section 5.1) and a value, which may be percent-encoded as in W3C's Baggage."""


class TraceSettings(BaseSettings):
    """Of OpenTelemetry's traces; its SDK reads its other variables (`OTEL_…`) by itself, from the environment only."""

    otel_exporter_otlp_endpoint: str = Field(
        "",
        description="Collector that takes traces by OTLP over HTTP, as `http://collector:4318`; needs the extra "
        "`traces`. The SDK's other `OTEL_*` variables (sampler, limits, certificate) count, too. Empty: no traces.",
    )
    otel_exporter_otlp_headers: SecretStr | None = Field(
        None, description="Headers that the collector asks for, as `Authorization=Bearer%20…`."
    )

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


def _headers(given: SecretStr | None) -> Mapping[str, str]:
    headers = {}
    for pair in given.get_secret_value().split(",") if given else ():
        if pair.strip():
            header = _HEADER.fullmatch(pair)
            if header is None:
                raise ValueError("it isn't like name=value,name=value")
            headers[header[1]] = unquote(header[2]).strip()
    return headers
