"""The authentication of requests. Features say who the callers are: by keys, tokens, a login or signatures."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from fastmcp import FastMCP
from fastmcp.server.auth import AuthProvider
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from anyreplica.auth.caller import Caller, UnknownCaller
from anyreplica.http.request_record import RECORD, Headers, RequestRecord, mcp_paths, path_of, record_of
from anyreplica.http.responses import ClientGone, Refused, send_refusal
from anyreplica.settings import CoreSettings

METADATA = "/.well-known/oauth-protected-resource"
"""Path of the protected resource metadata (RFC 9728, section 3). The path of the resource may follow."""

OPEN = frozenset({"/", "/health", "/version"})
"""Paths of this package that need no authentication, besides the probes and the metadata of a login. They reveal
nothing about the components."""


class Refusal(Exception):
    """The refusal of a request. The message of the exception is for people.

    `error` is a code for programs. It comes from RFC 6750, section 3.1, if that section has a code for the problem.
    `description` is the `error_description` of the challenge; it may be empty.
    """

    def __init__(self, error: str, message: str, status: int = 401, description: str = "") -> None:
        super().__init__(message)
        self.error = error
        self.status = status
        self.description = description


class BadSignature(Refusal):
    """A request without a valid signature. `str()` says to the client what is missing or wrong."""

    def __init__(self, message: str) -> None:
        super().__init__("invalid_signature", message)


def open_paths(settings: CoreSettings) -> frozenset[str]:
    """Return the paths that need no authentication: probes, and pages that say how to connect."""
    metadata = {METADATA, METADATA + settings.mcp_path}
    return OPEN | metadata | {settings.liveness_path, settings.readiness_path}


class TokenSource(Protocol):
    """Knows the callers of tokens that arrive as `Authorization: Bearer …`."""

    @property
    def required_scopes(self) -> Sequence[str]:
        """The scopes that every token must have. A caller that `known` returns needs none."""

    def known(self, token: bytes) -> Caller | None:
        """Return the caller of a token if that is known at once, without a request to anybody."""

    async def caller(self, token: bytes) -> Caller | None:
        """Return the caller of a token, or None if this source does not know it.

        Raises:
            Refused: the token cannot be checked now.
        """


class RequestCheck(Protocol):
    """Finds the caller of a request by more than a token, for example by a signature."""

    @property
    def required(self) -> bool:
        """Whether each request must have what this check looks for."""

    async def check(self, scope: Scope, receive: Receive, shown: Caller | None) -> tuple[Caller | None, Receive]:
        """Return the caller, and the function that receives the body from now on.

        Args:
            shown: the caller of the token in the request, if any.

        Raises:
            Refusal: the request is not genuine.
            Refused: the request cannot be checked now.
        """


@dataclass(frozen=True)
class Challenge:
    """What a reply with status 401 tells a client that can log in (RFC 9728, section 5.1).

    Attributes:
        scopes: the scopes to ask for.
        metadata: URL of the protected resource metadata, or an empty text.
    """

    scopes: Sequence[str] = ()
    metadata: str = ""


def login_name(mcp: FastMCP, settings: CoreSettings) -> str:
    """Return what chooses the login of users: a class of the server's code, or a variable. Empty: there is no login."""
    return type(mcp.auth).__name__ if mcp.auth is not None else settings.chosen_login


class Authentication:
    """The authenticator. It refuses an unknown caller with HTTP 401, unless `is_open` accepts the request.

    It does nothing if no feature knows callers.

    Attributes:
        required: whether callers must authenticate.
        is_open: returns whether a request needs no authentication. It decides by route, so the app sets it.
    """

    def __init__(
        self,
        settings: CoreSettings,
        sources: Sequence[TokenSource],
        checks: Sequence[RequestCheck],
        challenges: Sequence[Challenge],
    ) -> None:
        self.required = bool(sources or checks)
        self._settings = settings
        self._sources = tuple(sources)
        self._checks = tuple(checks)
        self._challenge = next(iter(challenges), Challenge())
        self._mcp = mcp_paths(settings)
        self.is_open: Callable[[Scope], bool] = lambda _: False

    def guard(self, app: ASGIApp) -> ASGIApp:
        """Return the app with authentication in front of it, or the app itself if authentication is off."""
        return partial(self._guarded, app) if self.required else app

    def provider(self, own: AuthProvider | None) -> AuthProvider | None:
        """Return what says to routes of FastMCP that callers need a token; None if they need none.

        Args:
            own: the provider of the server's author.
        """
        if own is not None or not self.required:
            return own
        return AuthProvider(self._settings.public_url or None, list(self._challenge.scopes))

    def _guarded(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] != "http":
            return app(scope, receive, send)
        record: RequestRecord = scope.get(RECORD) or record_of(scope)
        facts = record.facts
        key = facts.token if facts is not None and facts.is_token_read else _bearer(scope, record)
        caller = None
        if key:
            for source in self._sources:
                if (caller := source.known(key)) is not None:
                    break
        if caller is None or self._checks:
            return self._check_and_call(app, scope, receive, send, key, caller)
        # The caller is known at once, as with a key of the operator.
        if record.caller is not None or record.unknown is not None:
            caller = _joined(record, caller)
        record.caller = scope["user"] = caller
        scope["auth"] = caller.credentials
        return app(scope, receive, send)

    async def _check_and_call(
        self, app: ASGIApp, scope: Scope, receive: Receive, send: Send, key: bytes | None, caller: Caller | None
    ) -> None:
        open_ = scope["path"] not in self._mcp and path_of(scope) not in self._mcp and self.is_open(scope)
        try:
            caller, receive = await self._authenticate(scope, receive, key, caller, required=not open_)
        except (Refusal, Refused) as refusal:
            if not open_:
                await self._refuse(refusal, scope, receive, send)
                return
            caller = None  # the route may have tokens of its own, which nobody here can verify
        except ClientGone:
            return
        if caller is not None:
            record = record_of(scope)
            record.caller = scope["user"] = caller = _joined(record, caller)
            scope["auth"] = caller.credentials
        await app(scope, receive, send)

    async def _authenticate(
        self, scope: Scope, receive: Receive, key: bytes | None, caller: Caller | None, *, required: bool
    ) -> tuple[Caller | None, Receive]:
        """Return the caller of a request, and the function that receives its body.

        Args:
            key: the token of the request.
            caller: the caller of the token, if a source knows it at once.
            required: whether the request needs a caller.

        Raises:
            Refusal: the token or the signature is not valid, or there is none and it is required.
            Refused: the request cannot be checked now.
        """
        if caller is None and key:
            caller = await self._of_token(key)
        if required:
            for each in self._checks:
                caller, receive = await each.check(scope, receive, caller)
            if caller is None:
                raise self._unknown(key)
        return caller, receive

    async def _of_token(self, token: bytes) -> Caller | None:
        for source in self._sources:
            caller = await source.caller(token)
            if caller is None:
                continue
            if missing := [each for each in source.required_scopes if each not in caller.scopes]:
                text = f"The token does not have all required scopes: {' '.join(source.required_scopes)}."
                raise Refusal("insufficient_scope", text, 403, f"Required scope: {missing[0]}")
            return caller
        return None

    def _unknown(self, key: bytes | None) -> Refusal:
        if any(each.required for each in self._checks):
            text = "The request is not signed; sign it (RFC 9421)."
            hint = 'The guide "Authentication" of the documentation says how.'
            return Refusal("signature_required", f"{text} {hint}")
        if key is None:
            return Refusal("unauthorized", "The request has no token; send the header Authorization: Bearer <token>.")
        return Refusal("invalid_token", "The bearer token is not valid.")

    async def _refuse(self, refusal: Refusal | Refused, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a refusal. A `Refusal` gets a `WWW-Authenticate` header (RFC 6750, section 3; RFC 9728, section 5.1).

        The header is the same as FastMCP's. It needs at least one parameter, so it has `realm` if there is no other.
        """
        if isinstance(refusal, Refused):
            await send_refusal(scope, send, refusal)
            return
        parts = {
            "error": refusal.error if refusal.error != "unauthorized" else "",
            "error_description": refusal.description,
            "scope": " ".join(self._challenge.scopes),
            "resource_metadata": self._challenge.metadata,
        }
        found = {name: value for name, value in parts.items() if value} or {"realm": self._settings.mcp_name}
        challenge = ", ".join(f'{name}="{value}"' for name, value in found.items())
        headers = {"WWW-Authenticate": f"Bearer {challenge}"}
        if path_of(scope) in self._mcp:  # clients of MCP show the text only if it is in a JSON-RPC error
            data = {"error": refusal.error}
            await send_refusal(scope, send, Refused(refusal.status, str(refusal), data=data, headers=headers))
            return
        body = {"error": refusal.error, "message": str(refusal)}
        await JSONResponse(body, refusal.status, headers)(scope, receive, send)


def _joined(record: RequestRecord, caller: Caller) -> Caller:
    """Return the caller for a user that middleware before the authentication has found, see `OwnAuthentication`.

    Args:
        record: the record of the request. It says who the user is, if there is one.
        caller: the caller that has authenticated here.
    """
    user: Caller | None = record.caller
    unknown: UnknownCaller | None = record.unknown
    if unknown is not None:
        owner = f"{caller.owner}>{unknown.owner}"
        record.unknown = UnknownCaller(owner, is_authenticated=True) if unknown.is_authenticated else None
    return caller if user is None or user.identity == caller.identity else caller.speaking_for(user)


def _bearer(scope: Scope, record: RequestRecord) -> bytes | None:
    """Return the token of `Authorization: Bearer …` (RFC 6750), or None without this header.

    Return an empty value for another scheme, and for a request with several of these headers. Requests with the same
    head need not read it again.
    """
    token = _token_of(scope, record.headers)
    if record.facts is not None:
        record.facts.token, record.facts.is_token_read = token, True
    return token


def _token_of(scope: Scope, headers: Headers) -> bytes | None:
    given = headers.get(b"authorization")
    if given is None:
        return None
    if len(headers) != len(scope["headers"]) and sum(name == b"authorization" for name, _ in scope["headers"]) > 1:
        return b""
    scheme, _, key = given.partition(b" ")
    return key.strip() if scheme.lower() == b"bearer" else b""
