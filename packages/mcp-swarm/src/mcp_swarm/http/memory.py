"""The memory that all requests of a replica take together."""

from mcp_swarm.http.in_flight import UNAVAILABLE
from mcp_swarm.http.refusal import Refused


class Memory:
    """Counts the memory of requests that arrive or are answered, and refuses a request if that is too much.

    To limit the number of requests is not enough: a hundred of the largest need more memory than a container has.

    Args:
        most: bytes at the same time.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0

    def take(self, size: int, identity: int | str | None = None) -> None:
        """Count bytes; `give` them back when the request is answered.

        Raises:
            Refused: 503, all requests together would take more than `most`.
        """
        if self.held + size > self.most:
            text = f"Server busy: its requests take {self.most} bytes of memory (MAX_BUFFERED_BYTES); retry later."
            headers = {"Retry-After": "1", "Connection": "close"}  # the rest of a body may still be on its way
            raise Refused(503, text, code=UNAVAILABLE, identity=identity, headers=headers)
        self.held += size

    def give(self, size: int) -> None:
        """Count bytes no longer."""
        self.held -= size
