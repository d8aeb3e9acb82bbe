"""Who may pass: callers with a key, a token or a signature."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_swarm.auth.caller import CALLER, CURRENT, USER, Caller
from mcp_swarm.auth.key_ring import KeyRing
from mcp_swarm.auth.refusal import Refusal
from mcp_swarm.auth.tokens import Tokens
from mcp_swarm.http.refusal import ClientGone, Refused, send_refusal

if TYPE_CHECKING:
    from mcp_swarm.auth.signed_requests import Signed

METADATA = "/.well-known/oauth-protected-resource"
"""RFC 9728, section 3; the path of the resource itself may follow."""

OPEN_PATHS = frozenset({"/", "/healthz", "/health", "/readyz", "/version", METADATA, f"{METADATA}/mcp"})
"""Answered without a token: probes, and what tells a person how to connect (and nothing of the catalogue)."""


@dataclass(frozen=True)
class Challenge:
    """What a caller is told to do (`WWW-Authenticate`; RFC 6750, section 3, RFC 9728, section 5.1).

    Attributes:
        realm: the server's name.
        metadata: URL of what tells a client where to get a token; empty if there are none.
        scopes: that every token must have.
    """

    realm: str
    metadata: str = ""
    scopes: Sequence[str] = ()

    def header(self, error: str) -> str:
        """The header's value.

        Args:
            error: what was wrong with what was shown; empty if nothing was.
        """
        parts = {"realm": self.realm, "error": error, "scope": " ".join(self.scopes)}
        parts["resource_metadata"] = self.metadata
        return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in parts.items() if value)


class Guard:
    """Refuse who isn't known with 401, except to `OPEN_PATHS`.

    Args:
        ring: knows keys.
        tokens: knows tokens, if there is an issuer of them.
        signed: checks signatures, if they are looked at.
    """

    def __init__(
        self,
        app: ASGIApp,
        ring: KeyRing,
        challenge: Challenge,
        tokens: Tokens | None = None,
        signed: "Signed | None" = None,
    ) -> None:
        self.app = app
        self.ring = ring
        self.challenge = challenge
        self.tokens = tokens
        self.signed = signed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        key = _bearer(scope)
        caller = self.ring.caller(key) if key else None
        try:
            if caller is None and key and self.tokens is not None:
                caller = await self._of_token(key, self.tokens)
            if self.signed is not None:
                caller, receive = await self.signed.check(scope, receive, caller)
            if caller is not None:
                scope[CALLER] = caller
                scope[USER] = caller.user
                CURRENT.set(caller)  # in the request's own task
            elif scope["path"] not in OPEN_PATHS:
                raise self._unknown(key)
        except Refusal as refusal:
            await self._refuse(refusal, scope, receive, send)
            return
        except Refused as refused:
            await send_refusal(send, refused)
            return
        except ClientGone:
            return
        await self.app(scope, receive, send)

    async def _of_token(self, token: bytes, tokens: Tokens) -> Caller | None:
        caller = await tokens.caller(token)
        if caller is not None and not set(self.challenge.scopes) <= set(caller.user.scopes):
            text = f"The token lacks a scope; it needs: {' '.join(self.challenge.scopes)}."
            raise Refusal("insufficient_scope", text, 403)
        return caller

    def _unknown(self, key: bytes | None) -> Refusal:
        if self.signed is not None and self.signed.required:
            return Refusal("signature_required", "Sign the request (RFC 9421); README says how.")
        if key is None:
            return Refusal("unauthorized", "Send the header Authorization: Bearer <token>.")
        return Refusal("invalid_token", "The bearer token is not valid.")

    async def _refuse(self, refusal: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
        error = refusal.error if refusal.error != "unauthorized" else ""
        headers = {"WWW-Authenticate": self.challenge.header(error)}
        body = {"error": refusal.error, "message": str(refusal)}
        await JSONResponse(body, refusal.status, headers)(scope, receive, send)


def _bearer(scope: Scope) -> bytes | None:
    """What `Authorization: Bearer …` shows (RFC 6750); empty for another scheme, or two; None without the header."""
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    if not given:
        return None
    scheme, _, key = given[0].partition(b" ")
    return key.strip() if len(given) == 1 and scheme.lower() == b"bearer" else b""
