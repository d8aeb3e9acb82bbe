"""Authentication of callers that sign their requests (RFC 9421)."""

from typing import TYPE_CHECKING

from starlette.types import Receive, Scope

from anyreplica.auth.authentication import BadSignature
from anyreplica.auth.caller import Caller, PublicKeys
from anyreplica.features.signatures.nonces import Nonces
from anyreplica.features.signatures.settings import SignatureSettings
from anyreplica.features.signatures.verify import Signatures, is_signed
from anyreplica.http.limits import Body, replay
from anyreplica.http.request_record import headers_of

if TYPE_CHECKING:
    from redis.asyncio import Redis


class SignedRequests:
    """The check of signed requests. `keys` has the public keys; `body` reads the bodies that the signatures cover."""

    def __init__(self, settings: SignatureSettings, keys: PublicKeys, redis: "Redis | None", body: Body) -> None:
        self.required = settings.signing == "require"
        self._keys = keys
        self._body = body
        most, skew = settings.signing_max_age_seconds, settings.signing_skew_seconds
        nonces = Nonces(redis, settings.mcp_name, most + 2 * skew)
        self._signatures = Signatures(keys.public_key, nonces, max_age=most, skew=skew)

    async def check(self, scope: Scope, receive: Receive, shown: Caller | None) -> tuple[Caller | None, Receive]:
        """Return the caller that signed a request, and a `receive` that returns the request body.

        `shown` is the caller of the key or token in the request, if any. This method returns `shown` for a request
        without a signature, or None if the settings require a signature. It reads the body of a signed request, so
        the returned `receive` returns that body again.

        Raises:
            BadSignature: the signature is wrong, or belongs to another caller than `shown`.
            Refused: the body is refused.
            ClientGone: the client closed the connection.
        """
        if not is_signed(scope["headers"]):
            return (None if self.required else shown), receive
        body = await self._body.read(receive, headers_of(scope).get(b"content-length"))
        caller = self._keys.signer(await self._signatures.check(scope, body))
        if caller is None or (shown is not None and shown.identity != caller.identity):
            raise BadSignature("The signature and the Authorization header belong to different callers.")
        return caller, replay(body, receive)
