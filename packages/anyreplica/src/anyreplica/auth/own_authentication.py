"""The callers that ASGI middleware of the server's author authenticates.

Such middleware sets `scope["user"]`, as Starlette's `AuthenticationMiddleware` does. The limits and rules for callers
also apply to this user.
"""

import hmac
import logging
import secrets
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Receive, Scope, Send

from anyreplica.auth.caller import ANYBODY, Caller, UnknownCaller, caller_of_token, digest, readable
from anyreplica.http.request_record import RequestRecord, record_of
from anyreplica.settings.words import derived

logger = logging.getLogger(__name__)

_HARMLESS = frozenset(
    {"starlette.middleware.cors", "starlette.middleware.gzip", "starlette.middleware.httpsredirect"}
    | {"starlette.middleware.trustedhost", "uvicorn.middleware.proxy_headers"}
)
"""Modules whose middleware authenticates nobody."""

_LASTING = (b"authorization", b"proxy-authorization", b"x-api-key")
"""The headers with credentials that stay the same for many requests. A load balancer may change a cookie each time."""


class OwnAuthentication:
    """Finds the callers that middleware of the server's author has authenticated.

    Args:
        middleware: the author's middleware.
        keys: REQUEST_STATE_KEYS. The first key makes the owners of requests whose caller is unknown.

    Attributes:
        possible: names of the author's middleware that may authenticate callers. Nothing tells whether it does.
    """

    def __init__(self, middleware: Sequence[Middleware], keys: Sequence[str]) -> None:
        self.possible = [
            str(getattr(each.cls, "__name__", each.cls))
            for each in middleware
            if getattr(each.cls, "__module__", "") not in _HARMLESS
        ]
        self._key = derived(keys or [secrets.token_hex(32)], "unknown callers")[0]
        self._has_warned = False

    def inside(self, app: ASGIApp) -> ASGIApp:
        """Return the app with this object in front of it. It must be directly inside the author's middleware."""
        return partial(self._identify_and_call, app)

    def outside(self, app: ASGIApp) -> ASGIApp:
        """Return the app with this object in front of it, for middleware that runs before the authentication."""
        return partial(self._identify_user_and_call, app)

    def _identify_user_and_call(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if "user" in scope:
            self.identify(scope)
        return app(scope, receive, send)

    def _identify_and_call(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] == "http":
            self.identify(scope)
        return app(scope, receive, send)

    def identify(self, scope: Scope) -> None:
        """Note who the caller of a request is, if middleware has set `scope["user"]`.

        If the caller has a key, too, both together are the caller: a gateway with one key may have many users.
        """
        record, user = record_of(scope), scope.get("user")
        caller: Caller | None = record.caller
        if user is None:
            if caller is None and self.possible:
                self._note_silent(record)
            return
        if user is caller or not _is_authenticated(user):
            return
        found = _caller_of_user(user, scope.get("auth"))
        if found is None:
            owner = self._owner_by_credentials(record) or f"unknown:{secrets.token_hex(16)}"
            owner = owner if caller is None else f"{caller.owner}>{owner}"
            record.unknown = UnknownCaller(owner, is_authenticated=True)
        else:
            is_same = caller is None or caller.identity == found.identity
            record.caller = found if is_same or caller is None else caller.speaking_for(found)

    def _note_silent(self, record: RequestRecord) -> None:
        """Note that the author's middleware may know the caller, although it does not say so."""
        record.unknown = UnknownCaller(self._owner_by_credentials(record) or ANYBODY, is_authenticated=False)
        if not self._has_warned:
            self._has_warned = True
            logger.info(
                'Middleware %s sets no scope["user"]: this server cannot tell its callers apart, and caches results '
                'only for tools with scope="public"',
                ", ".join(self.possible),
            )

    def _owner_by_credentials(self, record: RequestRecord) -> str:
        """Return an owner that only requests with the same credentials have. Empty: there are no credentials."""
        shown = [value for name in _LASTING if (value := record.headers.get(name)) is not None]
        if not shown:
            return ""
        text = digest(*(each.decode("latin-1") for each in shown))
        # With a key, a reader of Redis cannot guess a password.
        return f"credentials:{hmac.digest(self._key, text.encode(), 'sha256').hex()[:32]}"


def _is_authenticated(user: Any) -> bool:
    try:
        return bool(getattr(user, "is_authenticated", True))
    except Exception:  # noqa: BLE001  # the class is the author's; Starlette's own raises NotImplementedError
        return True


def _caller_of_user(user: Any, auth: Any) -> Caller | None:
    """Return the caller of an authenticated user; None: the user has no identity that can be read."""
    if isinstance(user, Caller):
        return user
    if isinstance(user, AuthenticatedUser):
        claims = user.access_token.claims or {}
        issuer = claims.get("iss")
        caller = caller_of_token(user.access_token, str(issuer) if issuer else None, kind="token")
    elif identity := _identity_of(user):
        caller = Caller(f"user:{readable(identity)}", f"user:{digest(identity)[:32]}", rate=None)
    else:
        return None
    # A tool may read the scopes from the token and from the request.
    caller.scopes = sorted({*caller.scopes, *map(str, getattr(auth, "scopes", ()))})
    return caller


def _identity_of(user: Any) -> str:
    try:
        found = user if isinstance(user, str) else user.identity
    except Exception:  # noqa: BLE001  # see above
        return ""
    return str(found) if isinstance(found, str | int | UUID) else ""
