"""A request's body: read once, within bounds."""

import asyncio

from starlette.types import Message, Receive

from mcp_swarm.http import json_values
from mcp_swarm.http.in_flight import InFlight
from mcp_swarm.http.memory import Memory
from mcp_swarm.http.refusal import ClientGone, Refused

_LARGE = 64 * 1024
"""Bytes of a body that waits until no other large body is being parsed."""


class Body:
    """Reads bodies.

    Args:
        most: most bytes of a body.
        seconds: most time for a body to arrive.
        values: most JSON values in a body.
        arriving: limits how many incomplete bodies there are at the same time.
        memory: limits the memory of all requests together. The bytes of these bodies count.
    """

    def __init__(self, most: int, seconds: float, values: int, arriving: InFlight, memory: Memory) -> None:
        self.most = most
        self.seconds = seconds
        self.values = values
        self.arriving = arriving
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
        self.check(declared)
        part = await receive()
        return self.whole(part) or await self.rest(part, receive)

    def check(self, declared: bytes | None) -> None:
        """Refuse a body whose Content-Length is too large, before it is read.

        Raises:
            Refused: 413.
        """
        if declared is not None and len(declared) >= self._digits and int(declared) > self.most:
            raise self._too_large()

    def whole(self, part: Message) -> bytes | None:
        """The body, if the first ASGI message has all of it (most have); else None.

        Raises:
            Refused: 413.
        """
        body: bytes = part.get("body", b"")
        if part.get("more_body", False) or len(body) > self.most:
            return None
        if len(body) > self.values:
            self._check_values(body)
        return body

    async def rest(self, part: Message, receive: Receive) -> bytes:
        """The whole body of which an ASGI message is the first part; raises what `read` raises."""
        self.arriving.enter(None)
        try:
            async with asyncio.timeout(self.seconds):
                return await self._read_on(part, receive)
        except TimeoutError:
            text = f"The body did not arrive within {self.seconds:g} s."
            raise Refused(408, text, headers={"Connection": "close"}) from None
        finally:
            self.arriving.leave()

    async def _read_on(self, message: Message, receive: Receive) -> bytes:
        """Read a body that comes in several parts."""
        parts: list[bytes] = []
        size = 0
        try:
            while True:
                if message["type"] == "http.disconnect":
                    raise ClientGone
                part: bytes = message.get("body", b"")
                if size + len(part) > self.most:
                    raise self._too_large()
                self.memory.take(len(part))
                parts.append(part)
                size += len(part)
                if not message.get("more_body", False):
                    break
                message = await receive()
            body = b"".join(parts)
            if size > _LARGE:
                await self._wait_for_turn()
        finally:
            self.memory.give(size)
        if size > self.values:
            self._check_values(body)
        return body

    async def _wait_for_turn(self) -> None:
        """Wait, so that one large body is parsed in each turn of the event loop.

        Each takes milliseconds. Without this, many large bodies would delay all small requests.
        """
        async with self._turns:
            await asyncio.sleep(0)

    def _check_values(self, body: bytes) -> None:
        if json_values.count(body, self.values) > self.values:
            text = f"The body holds more than {self.values} JSON values (MAX_BODY_VALUES)."
            raise Refused(413, text)

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
