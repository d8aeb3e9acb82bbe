"""The start of tracing. Without tracing, the process does not import the SDK of OpenTelemetry."""

import os
from typing import TYPE_CHECKING

from anyreplica.settings import Settings
from anyreplica.settings.errors import StartupError

if TYPE_CHECKING:
    from anyreplica.features.tracing.export import Export

_PROTOCOL = "http/protobuf"
_ABSENT = (
    "OTEL_EXPORTER_OTLP_ENDPOINT: the packages for traces are not installed; "
    "build the image with --build-arg EXTRAS=traces, or run "
    "pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
)


def tracing(settings: Settings, replica: str) -> "Export | None":
    """Start tracing, or return None if the settings enable no traces.

    Call this function once in a process, before any code asks whether calls are traced.

    Raises:
        StartupError: the SDK is not installed, or refuses one of its environment variables.
    """
    if not settings.otel_exporter_otlp_endpoint:
        return None
    check(settings)
    from anyreplica.features.tracing import export  # noqa: PLC0415  # the import takes 0.2 s

    try:
        return export.begin(settings, replica)
    except ValueError as error:
        raise StartupError(f"OTEL_…: {error}") from None


def check(settings: Settings) -> None:
    """Check that traces can be sent.

    Raises:
        StartupError: the SDK is not installed, or its variables select another protocol.
    """
    if not settings.otel_exporter_otlp_endpoint:
        return
    try:
        from anyreplica.features.tracing import export  # noqa: F401, PLC0415
    except ImportError:
        raise StartupError(_ABSENT) from None
    for name in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if (said := os.environ.get(name)) and said != _PROTOCOL:
            raise StartupError(f"{name}={said}: protocol not supported; set {_PROTOCOL}")
