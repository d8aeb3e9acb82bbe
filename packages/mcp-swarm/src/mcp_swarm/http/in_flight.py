"""How many calls a replica works on at once."""

from mcp_swarm.http.refusal import Refused

UNAVAILABLE = -32000
"""JSON-RPC's first code for a server's own errors (specification, section 5.1); MCP gives it no meaning."""


class InFlight:
    """Counts the calls that are being answered, and refuses one too many.

    Without such a limit, too many calls make a server useless: each new call slows all others down, until callers stop
    waiting and call again. A refusal takes almost no time, and tells the caller when to try again.

    Args:
        most: calls at the same time.
        limit: the things that are counted, and the setting that limits them; the error's text contains it.
    """

    def __init__(self, most: int, limit: str = "calls in flight (MAX_IN_FLIGHT)") -> None:
        self.most = most
        self.count = 0
        self._limit = limit

    def enter(self, identity: int | str | None) -> None:
        """Count one more; `leave` when it is answered.

        Raises:
            Refused: 503, there are as many as there may be.
        """
        if self.count >= self.most:
            text = f"Server busy: {self.most} {self._limit}; retry later."
            raise Refused(503, text, code=UNAVAILABLE, identity=identity, headers={"Retry-After": "1"})
        self.count += 1

    def leave(self) -> None:
        """Count one less."""
        self.count -= 1
