"""Settings of the rate limits of a replica, and of the cost of calls."""

from pydantic import field_validator

from anyreplica.settings import CoreSettings
from anyreplica.settings.rate import NO_RATE, Rate, RateText, parse
from anyreplica.settings.words import WordList


class RateLimitSettings(CoreSettings):
    """Settings of rate limits, besides the rate of each caller."""

    replica_rate_limit: RateText = ""
    """Rate limit of one replica for all callers together, written like `RATE_LIMIT`. A call beyond the limit gets HTTP
    429. Empty: no limit."""
    tool_costs: WordList = ()
    """Cost of a call, by patterns of tool names, comma-separated: `generate_report=10,sales_*=2`. A call with a cost of
    10 counts as ten calls in the rate limit. The first pattern that matches the name decides. Other tools cost 1."""

    @field_validator("tool_costs")
    @classmethod
    def _costs(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        _costs(value)
        return value

    @property
    def replica_rate(self) -> Rate:
        """Rate limit of one replica for all callers together."""
        return parse(self.replica_rate_limit) if self.replica_rate_limit else NO_RATE

    @property
    def costs(self) -> list[tuple[str, int]]:
        """Patterns of tool names, each with the cost of a call."""
        return _costs(self.tool_costs)


def _costs(words: tuple[str, ...]) -> list[tuple[str, int]]:
    costs = []
    for word in words:
        pattern, _, cost = word.rpartition("=")
        if not pattern or not cost.isdecimal() or not cost.isascii() or not 0 < int(cost) <= 1_000_000:
            text = "is not a pattern with a cost; write it like generate_report=10, with a cost from 1 to 1000000"
            raise ValueError(f"{word!r} {text}")
        costs.append((pattern, int(cost)))
    return costs
