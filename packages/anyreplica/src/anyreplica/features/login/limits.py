"""The checks that a request to a route of a login passes, before FastMCP's handler runs.

Anybody can send such a request. So its body is small, its number is limited, and it never takes the place of a call.
"""

from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anyreplica.auth.address import Addresses
from anyreplica.features.login.attempts import Attempts
from anyreplica.features.login.current import LoginRequest, answering
from anyreplica.features.login.outage import LoginUnavailable, Outage, noting_outages
from anyreplica.features.login.stored_bytes import StoredBytes
from anyreplica.http.body import Body, replay
from anyreplica.http.in_flight import InFlight
from anyreplica.http.refusal import ClientGone, Refused
from anyreplica.http.request_record import headers_of
from anyreplica.http.shares import CallerPlaces

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
        checked = _Checked(self, route.app, static=route.path.startswith(_WELL_KNOWN))
        return Route(route.path, checked, methods=sorted(route.methods or ()), name=route.name)

    def request(self, scope: Scope) -> LoginRequest:
        """Return the request of a scope."""
        client = scope.get("client")
        return LoginRequest(self._addresses.of(scope) or (client[0] if client else ""), scope["path"] in _STORING)

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
        await self._attempts.count(request.address, _REGISTRATION_COST if scope["path"] == "/register" else 1)
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
    """The app of one route, behind the checks. A `static` route only returns metadata and is not counted."""

    def __init__(self, limits: LoginLimits, app: ASGIApp, *, static: bool) -> None:
        self._limits = limits
        self._app = app
        self._static = static

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with noting_outages() as outage:
            try:
                await self._answer(scope, receive, send, outage)
            except Refused as refused:
                await _error(refused.message, refused.status, dict(refused.headers))(scope, receive, send)
            except LoginUnavailable:
                await _error(LOGIN_UNAVAILABLE, 503, {"Retry-After": "5"})(scope, receive, send)
            except ClientGone:
                return

    async def _answer(self, scope: Scope, receive: Receive, send: Send, outage: Outage) -> None:
        if self._static or scope["method"] == "OPTIONS":
            await self._app(scope, receive, send)
            return
        request = self._limits.request(scope)
        receive = await self._limits.acquire(request, scope, receive)
        begun = False

        async def send_unless_lost(message: Message) -> None:
            nonlocal begun
            if outage.noted and not begun:
                raise LoginUnavailable
            if request.refusal is not None and not begun:
                raise request.refusal
            begun = True
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
