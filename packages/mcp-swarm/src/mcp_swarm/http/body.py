"""A request's body: read once, within bounds."""

import asyncio

from starlette.types import Message, Receive

from mcp_swarm.http import json_values
from mcp_swarm.http.in_flight import InFlight, Memory
from mcp_swarm.http.refusal import ClientGone, Refused

_SMALL = 16 * 1024
"""Bytes of a body that may arrive however busy the replica is: MAX_CONNECTIONS limits how many there are."""

_LARGE = 64 * 1024
"""Bytes of a body that waits until no other large body is being parsed."""


class Body:
    """Reads bodies. While a large one arrives in parts, it counts in `in_flight` and its bytes count in `memory`.

    Args:
        most: most bytes of a body.
        seconds: most time for a body to arrive.
        values: most JSON values in a body.
    """

    def __init__(self, most: int, seconds: float, values: int, in_flight: InFlight, memory: Memory) -> None:
        self.most = most
        self.seconds = seconds
        self.values = values
        self.in_flight = in_flight
        self.memory = memory
        self._digits = len(str(most))
        self._turns = asyncio.Lock()

    async def read(self, receive: Receive, declared: bytes | None) -> bytes:
        """Read a whole body.

        Args:
            declared: the Content-Length header, if there is one. If it is too large, nothing is read.

        Raises:
            Refused: 413 if it is too large or holds too many values, 408 if it takes too long, 503 if too many others
                are arriving.
            ClientGone: the connection closed first.
        """
        if declared is not None and len(declared) >= self._digits and int(declared) > self.most:
            raise self._too_large()
        part = await receive()
        body: bytes = part.get("body", b"")
        if not body or part.get("more_body", False) or len(body) > self.most:  # most bodies come in one part
            body = await self._read_on(part, receive, declared)
        if len(body) > self.values and json_values.count(body, self.values) > self.values:
            raise Refused(413, f"The body holds more than {self.values} JSON values (MAX_BODY_VALUES).")
        return body

    async def _read_on(self, message: Message, receive: Receive, declared: bytes | None) -> bytes:
        """The whole body of which an ASGI message is the first part.

        Unless it is declared to be small, it counts as a request in flight while it arrives, and its bytes as memory.
        """
        counts = declared is None or not declared.isdigit() or int(declared) > _SMALL
        if counts:
            self.in_flight.arrive()
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self.seconds):
                while True:
                    if message["type"] == "http.disconnect":
                        raise ClientGone
                    part: bytes = message.get("body", b"")
                    if size + len(part) > self.most:
                        raise self._too_large()
                    if counts:
                        self.memory.take(len(part))
                    parts.append(part)
                    size += len(part)
                    if not message.get("more_body", False):
                        break
                    message = await receive()
                body = b"".join(parts)
                if size > _LARGE:
                    async with self._turns:  # one in each turn of the event loop: to parse it takes milliseconds
                        await asyncio.sleep(0)
                return body
        except TimeoutError:
            text = f"The body did not arrive within {self.seconds:g} s."
            raise Refused(408, text, headers={"Connection": "close"}) from None
        finally:
            if counts:
                self.memory.give(size)
                self.in_flight.arrived()

    def _too_large(self) -> Refused:
        # The rest of the body may still be on its way, hence no further request on this connection.
        text = f"The body is larger than {self.most} bytes (MAX_BODY_BYTES)."
        return Refused(413, text, headers={"Connection": "close"})


def replay(body: bytes, receive: Receive) -> Receive:
    """An ASGI `receive` that returns a body that was read before, then what comes after it."""
    pending = True

    async def receive_again() -> Message:
        nonlocal pending
        if pending:
            pending = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return receive_again
