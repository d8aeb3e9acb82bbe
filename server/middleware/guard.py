"""Who may pass: one bearer token."""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

OPEN_PATHS = frozenset({"/", "/healthz", "/health", "/readyz", "/version"})
"""Answered without a token: probes, and what tells a person how to connect (and nothing of the catalogue)."""

PRINCIPAL = "server.principal"
"""Key of the scope under which stands who sent a request, if that is known."""


def owner_of(scope: Mapping[str, Any]) -> str:
    """Whose a thing is that a request makes: its sender's, or everybody's where nobody is asked who they are."""
    owner: str = scope.get(PRINCIPAL, "anybody")
    return owner


class Guard:
    """Refuse a request without `Authorization: Bearer <token>` (RFC 6750) with 401, except to `OPEN_PATHS`."""

    def __init__(self, app: ASGIApp, token: str, realm: str) -> None:
        self.app = app
        self.token = token.encode()
        self.realm = realm
        self.principal = f"token:{hashlib.sha256(self.token).hexdigest()[:16]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if self._knows(scope):
            scope[PRINCIPAL] = self.principal
        elif scope["path"] not in OPEN_PATHS:
            await self._refuse(scope, receive, send)
            return
        await self.app(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        sent = any(name == b"authorization" for name, _ in scope["headers"])
        challenge = f'Bearer realm="{self.realm}"' + (', error="invalid_token"' if sent else "")
        message = "The bearer token is not valid." if sent else "Send the header Authorization: Bearer <token>."
        body = {"error": "invalid_token" if sent else "unauthorized", "message": message}
        await JSONResponse(body, 401, {"WWW-Authenticate": challenge})(scope, receive, send)

    def _knows(self, scope: Scope) -> bool:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(given) != 1:
            return False
        scheme, _, token = given[0].partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self.token)
