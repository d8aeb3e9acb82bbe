"""One call to an API, with its retries."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx2
from opentelemetry import propagate, trace
from opentelemetry.trace import SpanKind, StatusCode

from anyreplica._version import __version__
from anyreplica.features.downstream.errors import (
    BadStatus,
    CircuitOpen,
    DownstreamError,
    Limited,
    TimedOut,
    Unreachable,
    Unusable,
)
from anyreplica.features.downstream.hosts import Host, Open, pause

_PORTS = {"http": 80, "https": 443}

_tracer = trace.get_tracer("anyreplica", __version__)

_PASSING = frozenset({502, 503, 504})
"""HTTP statuses after which a retry may succeed. A 500 usually comes again, because the request causes it."""


@contextmanager
def client_span(request: httpx2.Request) -> Iterator[Callable[[int], None]]:
    """Run the block in a span for a request, and add the span's trace context to the request's headers.

    The names and attributes follow OpenTelemetry's conventions for HTTP. The URL in the span has no query, because many
    APIs expect their key there.

    Yields:
        A function that takes the HTTP status of the response.
    """
    url = request.url
    about: dict[str, str | int] = {
        "http.request.method": request.method,
        "server.address": url.host,
        "server.port": url.port or _PORTS.get(url.scheme, 0),
        "url.full": str(url.copy_with(username=None, password=None, query=None, fragment=None)),
    }
    with _tracer.start_as_current_span(
        request.method, None, SpanKind.CLIENT, about, record_exception=False, set_status_on_exception=False
    ) as span:
        carrier: dict[str, str] = {}
        propagate.inject(carrier)
        request.headers.update(carrier)

        def answered(status: int) -> None:
            span.set_attribute("http.response.status_code", status)
            if status >= 400:
                _fail(span, str(status))

        try:
            yield answered
        except Exception as error:
            _fail(span, type(error).__name__)
            raise


def _fail(span: trace.Span, why: str) -> None:
    span.set_attribute("error.type", why)
    span.set_status(StatusCode.ERROR)


@dataclass
class ApiCall:
    """A request to a host with at most `retries` retries. The response may have `max_bytes` bytes."""

    client: httpx2.AsyncClient
    host: Host
    request: httpx2.Request
    auth: httpx2.Auth | None
    retries: int
    max_bytes: int
    _waits: bool = field(default=False, init=False)
    """Whether the call waits for other calls to the host."""

    async def run(self, seconds: float) -> httpx2.Response:
        """Make the call within `seconds`, retries included, and count its outcome.

        Raises:
            DownstreamError: there is no response with a 2xx status.
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
            raise TimedOut(f"{self.host.name} was not called: no time was left")
        try:
            async with asyncio.timeout(seconds) as clock:
                return await self._with_retries(clock)
        except TimeoutError:
            if self._waits:
                raise Limited(
                    f"{self.host.name} is busy: the call waited for other calls until its time limit"
                ) from None
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
        """Return the seconds until the next attempt, or None if there is no further attempt."""
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
            when = f"next attempt in {opened.seconds:.1f} s" if opened.seconds else "an attempt is in flight"
            text = f"Circuit open for {host.name} after {host.breaker.failed} failures; {when}"
            raise CircuitOpen(text) from None

    async def _judged(self, clock: asyncio.Timeout) -> httpx2.Response:
        """Send the request, and report the result to the circuit breaker."""
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
            good = False if clock.expired() else None  # not a timeout: the caller has gone away
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
            raise TimedOut(f"{name} sent no data for too long (DOWNSTREAM_READ_SECONDS)") from None
        except (httpx2.NetworkError, httpx2.RemoteProtocolError, httpx2.ProxyError):
            raise Unreachable(f"{name} sent no complete response: the connection failed") from None
        return httpx2.Response(response.status_code, headers=response.headers, content=body, request=self.request)

    async def _read(self, response: httpx2.Response) -> bytes:
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise Unusable(f"{self.host.name} sent a compressed response, which the request did not allow")
        body = bytearray()
        async for part in response.aiter_raw():
            body += part
            if len(body) > self.max_bytes:
                raise Unusable(f"The response of {self.host.name} is larger than {self.max_bytes} bytes")
        return bytes(body)
