"""Callers who sign their requests (RFC 9421)."""

from typing import TYPE_CHECKING

from starlette.types import Receive, Scope

from mcp_swarm.auth.caller import Caller
from mcp_swarm.auth.key_ring import KeyRing
from mcp_swarm.auth.refusal import Refusal
from mcp_swarm.auth.signatures.errors import BadSignature
from mcp_swarm.auth.signatures.nonces import Nonces
from mcp_swarm.auth.signatures.verify import Signatures, is_signed
from mcp_swarm.http.body import Body, replay
from mcp_swarm.http.headers import headers_of
from mcp_swarm.settings import Settings

if TYPE_CHECKING:
    from redis.asyncio import Redis


class Signed:
    """Looks at signatures.

    Args:
        ring: knows who signs.
        signatures: checks them.
        body: reads bodies, which signatures cover.
        required: whether a request must be signed.
    """

    def __init__(self, ring: KeyRing, signatures: Signatures, body: Body, *, required: bool) -> None:
        self.required = required
        self._ring = ring
        self._signatures = signatures
        self._body = body

    async def check(self, scope: Scope, receive: Receive, shown: Caller | None) -> tuple[Caller | None, Receive]:
        """Who signed a request; and what gives its body, which had to be read for that.

        Args:
            shown: who showed a key or token besides; taken where nobody signed, unless a signature is required.

        Raises:
            Refusal: a wrong signature, or none, or another caller's.
            Refused: a body that isn't read.
            ClientGone: the caller closed the connection.
        """
        if not is_signed(scope["headers"]):
            return (None if self.required else shown), receive
        body = await self._body.read(receive, headers_of(scope).get(b"content-length"))
        try:
            name = await self._signatures.check(scope, body)
        except BadSignature as error:
            raise Refusal("invalid_signature", str(error)) from None
        caller = self._ring.signer(name)
        if caller is None or (shown is not None and shown.name != caller.name):
            raise Refusal("invalid_signature", "The signature and the Authorization header are not of the same caller.")
        return caller, replay(body, receive)


def signed(settings: Settings, ring: KeyRing, redis: "Redis | None", body: Body) -> Signed | None:
    """What looks at signatures, if the settings want it."""
    if settings.signing == "off":
        return None
    most, skew = settings.signing_max_age_seconds, settings.signing_skew_seconds
    nonces = Nonces(redis, settings.mcp_name, most + 2 * skew)
    signatures = Signatures(ring.public_key, nonces, max_age=most, skew=skew)
    return Signed(ring, signatures, body, required=settings.signing == "require")
