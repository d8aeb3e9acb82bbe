"""What tools call."""

from pydantic import Field

from mcp_swarm.settings.words import Seconds, SettingsGroup


class DownstreamSettings(SettingsGroup):
    """Of calls to APIs by `mcp_swarm.downstream`, each host for itself."""

    downstream_timeout_seconds: Seconds = Field(10, gt=0)
    """Time for a call to an API, with all its retries; less if its tool's call has less left."""
    downstream_connect_seconds: Seconds = Field(2, gt=0)
    """Time for connecting to an API."""
    downstream_read_seconds: Seconds = Field(5, gt=0)
    """Time in which an API may send nothing."""
    downstream_retries: int = Field(2, ge=0)
    """How often a call is tried again that may be repeated and got no answer, 502, 503 or 504. All together at most a
    fifth of the calls to a host, and two a second."""
    downstream_concurrency: int = Field(20, ge=1)
    """Calls at once to one host; as many more wait, and one more is refused."""
    downstream_breaker_failures: int = Field(5, ge=1)
    """Failures in a row (no answer, or a 5xx) after which calls to a host are stopped for a while (circuit breaker)."""
    downstream_breaker_seconds: Seconds = Field(5, gt=0)
    """Time for which it is; then one call finds out whether it is back."""
    downstream_max_bytes: int = Field(10 * 1024 * 1024, ge=1)
    """Largest answer of an API."""
