"""Settings of the calls that tools make to APIs."""

from collections.abc import Iterator
from pathlib import Path

from pydantic import Field

from anyreplica.settings import CoreSettings
from anyreplica.settings.words import Seconds


class DownstreamSettings(CoreSettings):
    """Settings of calls to APIs by `anyreplica.downstream`. Each limit holds per host."""

    downstream_timeout_seconds: Seconds = Field(10, gt=0)
    """Time limit for a call to an API including all retries, in seconds. If the tool call has less time left, that time
    is the limit."""
    downstream_connect_seconds: Seconds = Field(2, gt=0)
    """Time limit for a connection to an API, in seconds."""
    downstream_read_seconds: Seconds = Field(5, gt=0)
    """Maximum time without any data from an API, in seconds."""
    downstream_retries: int = Field(2, ge=0)
    """Maximum number of retries of a call to an API. A call is retried only if it is safe to repeat and got no answer
    or HTTP 502, 503 or 504. All retries to one host together are limited to a fifth of its calls plus two per
    second."""
    downstream_concurrency: int = Field(20, ge=1)
    """Maximum number of calls to one host that run at the same time. The same number of calls may wait. A further call
    is refused."""
    downstream_breaker_failures: int = Field(5, ge=1)
    """Number of failures in a row that open the circuit breaker of a host. A failure is no answer or HTTP 5xx. While
    the circuit is open, the host gets no calls."""
    downstream_breaker_seconds: Seconds = Field(5, gt=0)
    """Time for which the circuit stays open, in seconds. Then one call tests the host."""
    downstream_max_bytes: int = Field(10 * 1024 * 1024, ge=1)
    """Maximum size of a response of an API, in bytes. A call with a larger response fails."""
    downstream_tokens_file: Path | None = None
    """Path of a TOML file with one table for each host that gets tokens in the name of the callers. The table says
    which authorization server exchanges a caller's token for a token of this host. The calls of `downstream`, proxies
    (`run URL`, `create_proxy`) and HTTP clients with `downstream.CallerAuth` send these tokens. Empty: no token
    exchange."""

    def doubts(self) -> Iterator[str]:
        yield from super().doubts()
        if self.downstream_tokens_file is not None and not self.auth_enabled:
            yield "DOWNSTREAM_TOKENS_FILE: set, but AUTH_ENABLED is false; no caller has a token to exchange."
