"""How often callers may call."""

import ipaddress

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings

from mcp_swarm.settings.rate import NO_RATE, Rate, parse
from mcp_swarm.settings.words import Words


class RateSettings(BaseSettings):
    """Of callers' rates, and of whom to believe where a call comes from."""

    rate_limit: str = Field(
        "",
        description="Calls of each caller that has no rate of its own, as `100/s`, `600/m`, `5000/h`, `20000/d`; "
        "beyond it: 429. With `REDIS_URL` all replicas together, else each. Empty: any number.",
    )
    rate_burst: float | None = Field(
        None, ge=1, description="Calls that may come at once. Empty: those of a quarter of a second, and ten at least."
    )
    rate_concurrent: int = Field(0, ge=0, description="Calls of each caller that may run at once. 0: any number.")
    replica_rate_limit: str = Field("", description="Calls of all callers that one replica takes. Empty: any number.")
    tool_costs: Words = Field(
        (), description="Tools whose calls count for more than one, by patterns: `generate_report=10,sales_*=2`."
    )
    trusted_proxies: Words = Field(
        (),
        description="Addresses or networks of proxies whose `X-Forwarded-For` is believed, where callers that nobody "
        "asks who they are shall be told apart by it. Never the mesh's own.",
    )

    @field_validator("rate_limit", "replica_rate_limit")
    @classmethod
    def _rate(cls, value: str) -> str:
        if value:
            parse(value)
        return value

    @field_validator("tool_costs")
    @classmethod
    def _costs(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        _costs(value)
        return value

    @field_validator("trusted_proxies")
    @classmethod
    def _networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for network in value:
            ipaddress.ip_network(network)
        return value

    @property
    def rate(self) -> Rate:
        """Of callers that have none of their own."""
        return (parse(self.rate_limit) if self.rate_limit else NO_RATE).but(self.rate_burst, self.rate_concurrent)

    @property
    def replica_rate(self) -> Rate:
        """Of all callers together, in one replica."""
        return parse(self.replica_rate_limit) if self.replica_rate_limit else NO_RATE

    @property
    def costs(self) -> list[tuple[str, int]]:
        """Patterns of tools' names, each with what a call counts for."""
        return _costs(self.tool_costs)


def _costs(words: tuple[str, ...]) -> list[tuple[str, int]]:
    costs = []
    for word in words:
        pattern, _, cost = word.rpartition("=")
        if not pattern or not cost.isdecimal() or not cost.isascii() or not 0 < int(cost) <= 1_000_000:
            raise ValueError(f"{word!r} isn't like generate_report=10")
        costs.append((pattern, int(cost)))
    return costs
