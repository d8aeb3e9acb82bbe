"""The checks that a request to a route of a login passes, before FastMCP's handler runs.

Anybody can send such a request. So its body is small, its number is limited, and it never takes the place of a call.
"""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anyreplica.auth.client_identity import Addresses
from anyreplica.features.login.shared import LoginUnavailable, RequestOutage, SharedLogins, noting_outages
from anyreplica.http.limits import Body, CallerPlaces, InFlight, replay
from anyreplica.http.request_record import headers_of
from anyreplica.http.responses import ClientGone, Refused
from anyreplica.settings.rate import Rate

_SECONDS = 600.0

_MOST_OF_ADDRESS = 1024 * 1024
"""Maximum number of bytes from one address in each period: 400 registrations with their logins."""

_MOST_STORED = 8 * 1024 * 1024
"""Maximum number of bytes from all addresses in each period. What nobody uses expires within an hour, so at most seven
times as many bytes are stored at once. The Redis of the Helm chart has 192 MB."""

_OVERHEAD = 200
"""Number of bytes that Redis needs for a value besides the value itself."""

_ALL = "all"

_MOST = 10_000
"""Maximum number of names that a replica without Redis counts."""

_MOST_BYTES = 64 * 1024
"""Maximum size of a body. The largest bodies are registrations and assertions."""

_MOST_FIELDS = 200
"""Maximum number of fields in a form. With more than 1000, the SDK's handler would answer with HTTP 500."""

_REGISTRATION_COST = 10
"""A registration counts as ten requests, because it is stored."""

_STORING = frozenset({"/register", "/authorize", "/consent"})
"""The paths on which anybody can store something."""

_WELL_KNOWN = "/.well-known/"

LOGIN_UNAVAILABLE = "The server cannot check logins now; retry later."


class StoredBytes:
    """A counter of stored bytes by address and of all addresses. All replicas share it in Redis.

    Args:
        most: maximum number of bytes from all addresses in each period.
    """

    def __init__(self, shared: SharedLogins | None, *, most: int = _MOST_STORED) -> None:
        self._most = most
        self._counter = PeriodCounter("stored", _SECONDS, shared)

    async def check(self, address: str) -> None:
        """Check that an address may store more.

        Raises:
            Refused: the address (429) or all addresses together (503) have stored too much.
            LoginUnavailable: Redis cannot be reached.
        """
        own, total = await self._counter.add(0, f"of {address}", _ALL)
        wait = self._counter.wait
        headers = {"Retry-After": str(wait)}
        if own >= _MOST_OF_ADDRESS:
            text = f"Too many registrations and logins from your address: the limit is {_MOST_OF_ADDRESS} stored bytes"
            raise Refused(429, f"{text} in {_SECONDS:g} s; retry in {wait} s.", headers=headers)
        if total >= self._most:
            text = f"Server busy: too many registrations and logins: the limit is {self._most} stored bytes"
            raise Refused(503, f"{text} in {_SECONDS:g} s; retry in {wait} s.", headers=headers)

    async def add(self, size: int) -> None:
        """Count the bytes of a value that the current request stores."""
        request = current_request()
        if request.counts:
            await self._counter.add(size + _OVERHEAD, f"of {request.address}", _ALL)


@dataclass
class LoginRequest:
    """A request to a route of a login.

    FastMCP hides many errors: it answers as if a client were unknown. A refusal that is noted here reaches the client.

    Attributes:
        address: the address of the client.
        counts: whether the bytes that this request stores count for the client's limit.
        cost: for how many requests this one counts.
        refusal: the answer, in place of the answer of FastMCP.
    """

    address: str = ""
    counts: bool = False
    cost: int = 1
    refusal: Refused | None = None


_CURRENT: ContextVar[LoginRequest | None] = ContextVar("login_request", default=None)


@contextmanager
def answering(request: LoginRequest) -> Iterator[None]:
    """Make a request the current one inside the `with` block."""
    token = _CURRENT.set(request)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current_request() -> LoginRequest:
    """Return the current request. Outside of a request to a route of a login, return an empty one."""
    return _CURRENT.get() or LoginRequest()


class Attempts:
    """A counter of login requests by address, on all replicas together. It begins anew in each period of the rate."""

    def __init__(self, rate: Rate, shared: SharedLogins | None) -> None:
        self._rate = rate
        self._counter = PeriodCounter("attempts", rate.seconds, shared)

    async def count(self, address: str, cost: int) -> None:
        """Count a request.

        Raises:
            Refused: the address has sent too many requests (429).
            LoginUnavailable: Redis cannot be reached.
        """
        (count,) = await self._counter.add(cost, address)
        if count > self._rate.calls:
            wait = self._counter.wait
            text = f"Too many login requests: the limit is {self._rate} (LOGIN_RATE_LIMIT); retry in {wait} s."
            raise Refused(429, text, headers={"Retry-After": str(wait)})


class PeriodCounter:
    """Sums by name in the current period. Without Redis (`shared` is None), each replica counts alone.

    Args:
        kind: the name of the counter in Redis.
        seconds: the length of a period.
    """

    def __init__(self, kind: str, seconds: float, shared: SharedLogins | None) -> None:
        self._kind = kind
        self._seconds = seconds
        self._shared = shared
        self._sums: dict[str, int] = {}
        self._period = 0

    @property
    def wait(self) -> int:
        """Seconds until the next period."""
        return math.ceil(self._seconds - time.time() % self._seconds)

    async def add(self, amount: int, *names: str) -> list[int]:
        """Add an amount to the sum of each name. Return the sums. An amount of 0 only reads them.

        Raises:
            LoginUnavailable: Redis cannot be reached.
        """
        period = int(time.time() // self._seconds)
        if self._shared is None:
            return [self._add_here(amount, name, period) for name in names]
        return await self._add_in_redis(self._shared, amount, names, period)

    def _add_here(self, amount: int, name: str, period: int) -> int:
        if period != self._period:
            self._period, self._sums = period, {}
        if name not in self._sums and len(self._sums) >= _MOST:
            name = ""  # all further names together
        self._sums[name] = found = self._sums.get(name, 0) + amount
        return found

    async def _add_in_redis(self, shared: SharedLogins, amount: int, names: tuple[str, ...], period: int) -> list[int]:
        async def send() -> list[int]:
            async with shared.redis.pipeline(transaction=True) as commands:
                for name in names:
                    key = shared.key(self._kind, name, str(period))
                    commands.incrby(key, amount)
                    commands.expire(key, math.ceil(self._seconds) + 1)
                return await commands.execute()

        found = await shared.reach(send, repeatable=False)
        return [int(each) for each in found[::2]]


class LoginLimits:
    """The checks of login requests in one replica.

    Args:
        body: the reader of bodies.
        attempts: the rate limit.
        stored: the limit of what anybody can store.
        addresses: the addresses of clients behind trusted proxies.
        most: maximum number of login requests in flight.
    """

    def __init__(self, body: Body, attempts: Attempts, stored: StoredBytes, addresses: Addresses, most: int) -> None:
        self._body = body
        self._attempts = attempts
        self._stored = stored
        self._addresses = addresses
        self._in_flight = InFlight(most, "login requests in flight")
        self._places = CallerPlaces(max(1, most // 2), "login requests in flight, half of MAX_IN_FLIGHT")

    def guarded(self, route: BaseRoute) -> BaseRoute:
        """Return a route with these checks. Anything but a `Route` stays as it is."""
        if not isinstance(route, Route):
            return route
        checked = _Checked(self, route.app, route.path)
        return Route(route.path, checked, methods=sorted(route.methods or ()), name=route.name)

    def request(self, scope: Scope, path: str) -> LoginRequest:
        """Return the request of a scope. `path` is the path of its route, without a prefix of the app."""
        client = scope.get("client")
        address = self._addresses.of(scope) or (client[0] if client else "")
        return LoginRequest(address, path in _STORING, _REGISTRATION_COST if path == "/register" else 1)

    async def acquire(self, request: LoginRequest, scope: Scope, receive: Receive) -> Receive:
        """Check a request and count it. Return a `receive` with its whole body. Call `release` after the answer.

        Raises:
            Refused: 408, 413, 415, 429 or 503.
            LoginUnavailable: Redis cannot be reached.
            ClientGone: the client has left.
        """
        headers = headers_of(scope)
        declared = headers.get(b"content-length", b"0")
        if not declared.isdigit() or int(declared[:9]) > _MOST_BYTES or len(declared) > len(str(_MOST_BYTES)):
            raise _too_large()
        await self._attempts.count(request.address, request.cost)
        if request.counts:
            await self._stored.check(request.address)
        kind = headers.get(b"content-type", b"").lower().lstrip()
        if kind.startswith(b"multipart/"):
            raise Refused(415, "Wrong Content-Type; send a form as application/x-www-form-urlencoded.")
        body = await self._body.read(receive, headers.get(b"content-length"))
        if len(body) > _MOST_BYTES:
            raise _too_large()
        if not kind.startswith(b"application/json") and body.count(b"&") >= _MOST_FIELDS:
            raise Refused(413, f"Too many fields in a login request: the limit is {_MOST_FIELDS}.")
        self._places.acquire(request.address)
        try:
            self._in_flight.acquire(None)
        except Refused:
            self._places.release(request.address)
            raise
        return replay(body, receive)

    def release(self, request: LoginRequest) -> None:
        """Note the end of a request that `acquire` has counted."""
        self._places.release(request.address)
        self._in_flight.release()


class _Checked:
    """The app of one route, behind the checks. Routes below `/.well-known/` only return metadata, without checks."""

    def __init__(self, limits: LoginLimits, app: ASGIApp, path: str) -> None:
        self._limits = limits
        self._app = app
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = self._limits.request(scope, self._path)
        with noting_outages(request.address) as outage:
            try:
                await self._answer(request, scope, receive, send, outage)
            except Refused as refused:
                await _error(refused.message, refused.status, dict(refused.headers))(scope, receive, send)
            except LoginUnavailable:
                await _error(LOGIN_UNAVAILABLE, 503, {"Retry-After": "5"})(scope, receive, send)
            except ClientGone:
                return

    async def _answer(
        self, request: LoginRequest, scope: Scope, receive: Receive, send: Send, outage: RequestOutage
    ) -> None:
        if self._path.startswith(_WELL_KNOWN) or scope["method"] == "OPTIONS":
            await self._app(scope, receive, send)
            return
        receive = await self._limits.acquire(request, scope, receive)
        has_started = False

        async def send_unless_lost(message: Message) -> None:
            nonlocal has_started
            if outage.noted and not has_started:
                raise LoginUnavailable
            if request.refusal is not None and not has_started:
                raise request.refusal
            has_started = True
            await send(message)

        try:
            with answering(request):
                await self._app(scope, receive, send_unless_lost)
        finally:
            self._limits.release(request)


def _too_large() -> Refused:
    text = f"Request body too large: the limit of login requests is {_MOST_BYTES} bytes."
    return Refused(413, text, headers={"Connection": "close"})


def _error(description: str, status: int, headers: dict[str, str]) -> JSONResponse:
    error = "invalid_request" if status in (408, 413, 415) else "temporarily_unavailable"
    body = {"error": error, "error_description": description}
    return JSONResponse(body, status, {"Cache-Control": "no-store", **headers})
