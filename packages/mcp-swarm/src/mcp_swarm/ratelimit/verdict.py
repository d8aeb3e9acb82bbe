"""What a caller is told whose call is one too many."""

import math
from dataclasses import dataclass

from mcp_swarm.http.in_flight import UNAVAILABLE
from mcp_swarm.http.refusal import Refused
from mcp_swarm.settings.rate import Rate


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a call may go on.

    Attributes:
        granted: it may.
        remaining: tokens that are left.
        wait: seconds after which it may be tried again; 0 if it was refused for the calls that run.
    """

    granted: bool
    remaining: float = 0
    wait: float = 0


GRANTED = Verdict(granted=True)


def refusal(rate: Rate, verdict: Verdict, identity: int | str | None) -> Refused:
    """429 (RFC 6585, section 4) with the fields of draft-ietf-httpapi-ratelimit-headers-06, section 5."""
    wait = max(1, math.ceil(verdict.wait))
    if verdict.wait:
        text = f"Too many calls: {rate} are allowed; try again in {wait} s."
        limit, reason = rate.calls, "rate"
    else:
        text = f"Too many calls at once: {rate.concurrent} are allowed; try again when one is answered."
        limit, reason = rate.concurrent, "concurrent"
    headers = {
        "Retry-After": str(wait),
        "RateLimit-Limit": f"{math.ceil(limit)}",
        "RateLimit-Remaining": f"{math.floor(verdict.remaining)}",
        "RateLimit-Reset": str(wait),
    }
    data = {"reason": reason, "retry_after": wait}
    return Refused(429, text, code=UNAVAILABLE, data=data, identity=identity, headers=headers)
