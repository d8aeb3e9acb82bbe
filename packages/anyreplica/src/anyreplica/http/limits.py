"""What requests may use at the same time: their number, their memory, and the size and the time of their bodies."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import Message, Receive

from anyreplica.http import json_values
from anyreplica.http.responses import UNAVAILABLE, ClientGone, Refused

_LONG_SECONDS = 0.1

_RETURN_SECONDS = 1.0

_RETURN_PAUSE_SECONDS = 0.02

_SMALL = 16 * 1024
"""Maximum size of a small body, in bytes. A busy replica still reads small bodies. MAX_CONNECTIONS limits their
number."""

_LARGE = 64 * 1024
"""Minimum size of a large body, in bytes. Large bodies are parsed one per turn of the event loop."""


class InFlight:
    """A counter of requests in flight that refuses further requests at its limit.

    Without this limit, each new request makes all others slower, until clients time out and retry.

    Args:
        most: Maximum number of requests in flight.
        limit: The name of the counted thing and its setting, for the text of the error.
    """

    def __init__(self, most: int, limit: str = "requests in flight (MAX_IN_FLIGHT)") -> None:
        self.most = most
        self.count = 0
        self._limit = limit
        self._arriving = 0
        self._outside = 0

    def acquire(self, identity: int | str | None) -> None:
        """Count one more request. Call `release` after it. Raise `Refused` (503) at the limit."""
        if self.count >= self.most:
            text = f"Server busy: {self.most} {self._limit}; retry later."
            raise Refused.retry_later(text, identity=identity)
        self.count += 1

    def acquire_beyond(self) -> None:
        """Count one more request, even at the limit, because it cannot be refused. Call `release` after it."""
        self.count += 1

    def release(self) -> None:
        self.count -= 1

    def reserve_upload(self) -> None:
        """Count a request with a body that arrives in parts. Call `release_upload` after the last part.

        Raise `Refused` (503) at the limit. Such requests may use at most half of `most`, so that slow senders do not
        block other clients.
        """
        if self._arriving >= max(1, self.most // 2):
            text = f"Server busy: {self._arriving} request bodies are arriving (half of MAX_IN_FLIGHT); retry later."
            raise Refused.retry_later(text)
        self.acquire(None)
        self._arriving += 1

    def release_upload(self) -> None:
        self._arriving -= 1
        self.release()

    @asynccontextmanager
    async def outside(self, long_seconds: float = _LONG_SECONDS) -> AsyncIterator[None]:
        """Do not count a request of `acquire` inside the `async with` block, because it waits for Redis.

        A Redis that does not answer would otherwise let the requests that need it hold all places. At most `most`
        requests wait like this; a further one keeps its place.

        When Redis answers at last or is given up, many requests return at the same moment. So after a long wait, each
        one first waits until a quarter of the places is free, for at most a second.

        Args:
            long_seconds: time from which on a wait is long, in seconds.
        """
        if self._outside >= self.most:
            yield
            return
        self._outside += 1
        self.count -= 1
        loop = asyncio.get_running_loop()
        left = loop.time()
        try:
            yield
            now = loop.time()
            until = now if now - left < long_seconds else now + _RETURN_SECONDS
            while self.count > self.most * 3 // 4 and loop.time() < until:  # noqa: ASYNC110  # nothing tells
                await asyncio.sleep(_RETURN_PAUSE_SECONDS)
        finally:
            self._outside -= 1
            self.acquire_beyond()


class Memory:
    """A counter of the memory of requests in flight that refuses a request beyond `most` bytes.

    A limit of the number of requests is not enough: 100 requests of the maximum size need more memory than a container
    has.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0

    def acquire(self, size: int, identity: int | str | None = None) -> None:
        """Count bytes. Call `release` when they are free.

        Raise `Refused` (503) if all requests together would need more than `most`.
        """
        if self.held + size > self.most:
            limit = f"the limit of all requests together is {self.most} bytes (MAX_BUFFERED_BYTES)"
            text = f"Server busy: no memory for this request; {limit}; retry later."
            headers = {"Retry-After": "1", "Connection": "close"}  # the rest of a body may still arrive
            raise Refused(503, text, code=UNAVAILABLE, identity=identity, headers=headers)
        self.held += size

    def acquire_beyond(self, size: int) -> None:
        """Count bytes, even beyond the limit. Call `release` when they are free."""
        self.held += size

    def release(self, size: int) -> None:
        self.held -= size


class Shares:
    """Counts what all callers use of a limit. One caller may use at most its share.

    Args:
        most: The limit of all callers together.
        share: The limit of one caller. None: half of `most`.
    """

    def __init__(self, most: int, share: int | None = None) -> None:
        self.most = most
        self.share = max(1, most // 2) if share is None else share
        """The limit of one caller."""
        self.used = 0
        self._by_caller: dict[str, int] = {}

    def used_by(self, caller: str) -> int:
        """Return what a caller uses."""
        return self._by_caller.get(caller, 0)

    def room(self, caller: str) -> int:
        """Return how much more a caller may use. The number is negative if `add` has gone beyond a limit."""
        return min(self.most - self.used, self.share - self.used_by(caller))

    def add(self, caller: str, amount: int) -> None:
        """Count an amount, even beyond the limits. A negative amount is given back."""
        self.used += amount
        used = self.used_by(caller) + amount
        if used:
            self._by_caller[caller] = used
        else:
            self._by_caller.pop(caller, None)


class CallerPlaces:
    """Counts what each caller has in flight, and refuses a caller more than its share of places.

    The limit of all callers together is the one of an `InFlight`.

    Args:
        share: Maximum number for one caller.
        limit: The name of the counted thing and its limit, for the text of the error.
    """

    def __init__(self, share: int, limit: str) -> None:
        self.shares = Shares(share, share)
        self._limit = limit

    def acquire(self, caller: str, identity: int | str | None = None) -> None:
        """Count one more for a caller. Call `release` after it. Raise `Refused` (503) beyond the share."""
        share = self.shares.share
        if self.shares.used_by(caller) >= share:
            text = f"Server busy: you have {share} {self._limit}; retry when one of them ends."
            raise Refused.retry_later(text, identity=identity)
        self.shares.add(caller, 1)

    def release(self, caller: str) -> None:
        self.shares.add(caller, -1)


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
