"""Whether calls are traced. Nothing of OpenTelemetry's SDK is imported where they aren't."""

import os
from typing import TYPE_CHECKING

from mcp_swarm.settings import Settings
from mcp_swarm.settings.errors import StartupError

if TYPE_CHECKING:
    from mcp_swarm.tracing.export import Export

_PROTOCOL = "http/protobuf"
_ABSENT = (
    "OTEL_EXPORTER_OTLP_ENDPOINT: traces need packages that aren't installed; "
    "pip install 'mcp-swarm[traces]', or build the image with --build-arg EXTRAS=traces"
)


def tracing(settings: Settings, replica: str) -> "Export | None":
    """Begin to trace, if the settings want it; once in a process, ahead of whatever asks whether calls are traced.

    Raises:
        StartupError: the SDK isn't installed, or doesn't take one of its own variables.
    """
    if not settings.otel_exporter_otlp_endpoint:
        return None
    check(settings)
    from mcp_swarm.tracing import export  # noqa: PLC0415  # it takes 0.2 s

    try:
        return export.begin(settings, replica)
    except ValueError as error:
        raise StartupError(f"OTEL_…: {error}") from None


def check(settings: Settings) -> None:
    """Raise StartupError if no traces could be sent: the SDK isn't installed, or would speak another protocol."""
    if not settings.otel_exporter_otlp_endpoint:
        return
    try:
        from mcp_swarm.tracing import export  # noqa: F401, PLC0415
    except ImportError:
        raise StartupError(_ABSENT) from None
    for name in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if (said := os.environ.get(name)) and said != _PROTOCOL:
            raise StartupError(f"{name}={said}: traces are sent by {_PROTOCOL} only")
