"""How many requests a replica works on at once, and the memory that they take together."""

from mcp_swarm.http.refusal import Refused

UNAVAILABLE = -32000
"""JSON-RPC's first code for a server's own errors (specification, section 5.1); MCP gives it no meaning."""


class InFlight:
    """Counts the requests that arrive or are answered, and refuses one too many.

    Without such a limit each new call slows all others down, until callers stop waiting and call again.

    Args:
        most: calls at the same time.
        limit: what is counted, and the setting that limits it, for the error's text.
    """

    def __init__(self, most: int, limit: str = "calls in flight (MAX_IN_FLIGHT)") -> None:
        self.most = most
        self.count = 0
        self._limit = limit
        self._arriving = 0

    def enter(self, identity: int | str | None) -> None:
        """Count one more, until `leave`. Raises `Refused` (503) if there are as many as there may be."""
        if self.count >= self.most:
            text = f"Server busy: {self.most} {self._limit}; retry later."
            raise Refused(503, text, code=UNAVAILABLE, identity=identity, headers={"Retry-After": "1"})
        self.count += 1

    def leave(self) -> None:
        self.count -= 1

    def arrive(self) -> None:
        """Count a request whose body arrives in parts, until `arrived`. Raises `Refused` (503) as `enter` does.

        Half of the places at most are for such requests, so that slow senders leave room for others.
        """
        if self._arriving >= max(1, self.most // 2):
            text = f"Server busy: {self._arriving} bodies are arriving (half of MAX_IN_FLIGHT); retry later."
            raise Refused(503, text, code=UNAVAILABLE, headers={"Retry-After": "1"})
        self.enter(None)
        self._arriving += 1

    def arrived(self) -> None:
        self._arriving -= 1
        self.leave()


class Memory:
    """Counts the memory of requests that arrive or are answered, and refuses a request if it exceeds `most` bytes.

    To limit the number of requests is not enough: a hundred of the largest need more memory than a container has.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0

    def take(self, size: int, identity: int | str | None = None) -> None:
        """Count bytes, until `give`. Raises `Refused` (503) if all requests together would take more than `most`."""
        if self.held + size > self.most:
            text = f"Server busy: its requests take {self.most} bytes of memory (MAX_BUFFERED_BYTES); retry later."
            headers = {"Retry-After": "1", "Connection": "close"}  # the rest of a body may still be on its way
            raise Refused(503, text, code=UNAVAILABLE, identity=identity, headers=headers)
        self.held += size

    def give(self, size: int) -> None:
        self.held -= size
