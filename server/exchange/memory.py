"""How much memory the requests of a replica take together."""

from server.exchange.errors import Refused
from server.exchange.in_flight import UNAVAILABLE


class Memory:
    """Counts the bytes of requests that arrive or are answered, and refuses one too many.

    The number of requests is no bound: a hundred of the largest take more memory than a container has.

    Args:
        most: bytes at once.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0

    def take(self, size: int, identity: int | str | None = None) -> None:
        """Count so many bytes more; `give` them back when the request is answered.

        Raises:
            Refused: 503, requests take as many bytes as they may.
        """
        if self.held + size > self.most:
            text = f"Server busy: its requests take {self.most} bytes (MAX_BUFFERED_BYTES); retry later."
            headers = {"Retry-After": "1", "Connection": "close"}  # the rest of a body may still be on its way
            raise Refused(503, text, code=UNAVAILABLE, identity=identity, headers=headers)
        self.held += size

    def give(self, size: int) -> None:
        """Count so many bytes less."""
        self.held -= size
