"""Read request bodies, with limits for size, time and number of JSON values."""

import asyncio

from starlette.types import Message, Receive

from anyreplica.http import json_values
from anyreplica.http.in_flight import InFlight, Memory
from anyreplica.http.refusal import ClientGone, Refused

_SMALL = 16 * 1024
"""Maximum size of a small body, in bytes. A busy replica still reads small bodies. MAX_CONNECTIONS limits their
number."""

_LARGE = 64 * 1024
"""Minimum size of a large body, in bytes. Large bodies are parsed one per turn of the event loop."""


class Body:
    """A reader of request bodies.

    While a body arrives in parts and is not small, it counts in `in_flight` and its bytes count in `memory`.

    Args:
        most: Maximum size of a body, in bytes.
        seconds: Time limit for a body to arrive, in seconds.
        values: Maximum number of JSON values in a body.
        in_flight: The counter of requests in flight.
        memory: The counter of bytes in memory.
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
            receive: The `receive` function of ASGI.
            declared: The value of the Content-Length header. None: the request has no such header. If the value is too
                large, no part of the body is read.

        Raises:
            Refused: 413 for too many bytes or JSON values, 408 for a slow body, 503 if too many bodies or bytes are
                arriving.
            ClientGone: The client closed the connection before the body was complete.
        """
        if declared is not None and len(declared) >= self._digits and declared.isdigit() and int(declared) > self.most:
            raise self._too_large()
        part = await receive()
        body: bytes = part.get("body", b"")
        if not body or part.get("more_body", False) or len(body) > self.most:  # most bodies come in one part
            body = await self._read_on(part, receive, declared)
        if len(body) > self.values and json_values.count(body, self.values) > self.values:
            raise Refused(413, f"Request body too large: the limit is {self.values} JSON values (MAX_BODY_VALUES).")
        return body

    async def _read_on(self, message: Message, receive: Receive, declared: bytes | None) -> bytes:
        """Read the rest of a body and return the whole body. `message` has the first part.

        While the body arrives, it counts as a request in flight, and its bytes count for MAX_BUFFERED_BYTES. A body
        that is small according to Content-Length does not count.
        """
        counts = declared is None or not declared.isdigit() or int(declared) > _SMALL
        if counts:
            self.in_flight.reserve_upload()
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
                        self.memory.acquire(len(part))
                    parts.append(part)
                    size += len(part)
                    if not message.get("more_body", False):
                        break
                    message = await receive()
                body = b"".join(parts)
                if size > _LARGE:
                    async with self._turns:  # one large body per turn of the event loop: parsing takes milliseconds
                        await asyncio.sleep(0)
                return body
        except TimeoutError:
            text = f"Request body too slow: it did not arrive within {self.seconds:g} s (RECEIVE_TIMEOUT_SECONDS)."
            raise Refused(408, text, headers={"Connection": "close"}) from None
        finally:
            if counts:
                self.memory.release(size)
                self.in_flight.release_upload()

    def _too_large(self) -> Refused:
        # The rest of the body may still arrive, so this connection cannot carry another request.
        text = f"Request body too large: the limit is {self.most} bytes (MAX_BODY_BYTES)."
        return Refused(413, text, headers={"Connection": "close"})


def replay(body: bytes, receive: Receive) -> Receive:
    """Return an ASGI `receive` function that first returns an already read body and then the next messages."""
    pending = True

    async def receive_again() -> Message:
        nonlocal pending
        if pending:
            pending = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return receive_again
