"""One call to an API, however often it is tried."""

import asyncio
from dataclasses import dataclass, field

import httpx2

from mcp_swarm.downstream.breaker import Open
from mcp_swarm.downstream.client_span import client_span
from mcp_swarm.downstream.errors import (
    BadStatus,
    CircuitOpen,
    DownstreamError,
    Limited,
    TimedOut,
    Unreachable,
    Unusable,
)
from mcp_swarm.downstream.hosts import Host
from mcp_swarm.downstream.retries import pause

_PASSING = frozenset({502, 503, 504})
"""Statuses that another try may change; 500 is as a rule the request's own."""


@dataclass
class ApiCall:
    """A request to a host, with at most `retries` tries beyond the first, and `max_bytes` of an answer."""

    client: httpx2.AsyncClient
    host: Host
    request: httpx2.Request
    auth: httpx2.Auth | None
    retries: int
    max_bytes: int
    _waits: bool = field(default=False, init=False)

    async def run(self, seconds: float) -> httpx2.Response:
        """Make the call, within so many seconds, and count how it ended.

        Raises:
            DownstreamError: there is no answer of status 2xx.
        """
        host = self.host
        host.calls += 1
        host.budget.earn()
        try:
            response = await self._in_time(seconds)
        except DownstreamError as error:
            answered = isinstance(error, BadStatus) and error.response.status_code < 500
            host.outcomes["ok" if answered else error.outcome] += 1
            raise
        finally:
            host.calls -= 1
        host.outcomes["ok"] += 1
        return response

    async def _in_time(self, seconds: float) -> httpx2.Response:
        if seconds <= 0:
            raise TimedOut(f"no time was left to call {self.host.name}")
        try:
            async with asyncio.timeout(seconds) as clock:
                return await self._with_retries(clock)
        except TimeoutError:
            if self._waits:
                raise Limited(f"{self.host.name} is busy: other calls to it took all the time") from None
            raise TimedOut(f"{self.host.name} did not answer within {round(seconds, 1):g} s") from None

    async def _with_retries(self, clock: asyncio.Timeout) -> httpx2.Response:
        tried = 0
        while True:
            tried += 1
            try:
                return await self._try(clock)
            except (Unreachable, BadStatus) as error:
                seconds = self._pause(error, tried, clock)
                if seconds is None:
                    raise
            self.host.retries += 1
            await asyncio.sleep(seconds)

    def _pause(self, error: Unreachable | BadStatus, tried: int, clock: asyncio.Timeout) -> float | None:
        """Seconds until the next try; None if there is to be none."""
        asked = ""
        if isinstance(error, BadStatus):
            if error.response.status_code not in _PASSING:
                return None
            asked = error.response.headers.get("Retry-After", "")
        if tried > self.retries or self.host.breaker.state != "closed":
            return None
        seconds = pause(tried, asked)
        left = (clock.when() or 0) - asyncio.get_running_loop().time()
        return seconds if seconds < left and self.host.budget.spend() else None

    async def _try(self, clock: asyncio.Timeout) -> httpx2.Response:
        host = self.host
        try:
            host.breaker.check()
            self._waits = True
            async with host.place():
                self._waits = False
                return await self._judged(clock)
        except Open as opened:
            when = f"in {opened.seconds:.1f} s" if opened.seconds else "in a moment"
            raise CircuitOpen(f"{host.name} failed repeatedly: circuit open; try again {when}") from None

    async def _judged(self, clock: asyncio.Timeout) -> httpx2.Response:
        """Send the request, and let the breaker know how it went."""
        turn = self.host.breaker.enter()
        good: bool | None = None
        try:
            response = await self._send()
            good = response.status_code < 500
        except Unusable:
            good = True
            raise
        except (Unreachable, TimedOut):
            good = False
            raise
        except asyncio.CancelledError:
            good = False if clock.expired() else None  # else its caller went away
            raise
        finally:
            self.host.leave(turn, good)
        if not response.is_success:
            meaning = f"{response.status_code} {httpx2.codes.get_reason_phrase(response.status_code)}".rstrip()
            raise BadStatus(f"{self.host.name} answered {meaning}", response)
        return response

    async def _send(self) -> httpx2.Response:
        name = self.host.name
        try:
            with client_span(self.request) as answered:
                response = await self.client.send(self.request, auth=self.auth, stream=True)
                answered(response.status_code)
                try:
                    body = await self._read(response)
                finally:
                    await response.aclose()
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            raise Unreachable(f"{name} can't be reached") from None
        except httpx2.TimeoutException:
            raise TimedOut(f"{name} sent nothing for too long") from None
        except (httpx2.NetworkError, httpx2.RemoteProtocolError, httpx2.ProxyError):
            raise Unreachable(f"{name} broke off the connection") from None
        return httpx2.Response(response.status_code, headers=response.headers, content=body, request=self.request)

    async def _read(self, response: httpx2.Response) -> bytes:
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise Unusable(f"{self.host.name} answered with something compressed, which it wasn't asked for")
        body = bytearray()
        async for part in response.aiter_raw():
            body += part
            if len(body) > self.max_bytes:
                raise Unusable(f"the answer of {self.host.name} is larger than {self.max_bytes} bytes")
        return bytes(body)
