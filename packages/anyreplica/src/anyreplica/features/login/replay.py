"""Protection against replays on all replicas: codes, refresh tokens and assertions are valid only once.

FastMCP's providers remember used assertions in the memory of one process, and two processes can take the same code at
the same moment. The functions of this module surround the methods that the SDK's handlers call.
"""

import json
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from fastmcp.server.auth import OAuthProvider
from joserfc.util import urlsafe_b64decode
from mcp.server.auth.provider import AuthorizationCode, IdentityAssertionParams, RefreshToken, TokenError
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from anyreplica.features.login.assertions import SKEW_SECONDS
from anyreplica.features.login.shared import SharedLock, SharedLogins, SingleUse

if TYPE_CHECKING:
    from fastmcp.server.auth.cimd import CIMDClientManager

_CODE_SECONDS = 900
"""Time for which a used code is remembered. FastMCP's codes are valid for five minutes."""
_REFRESH_SECONDS = 300
"""Time for which a used refresh token is remembered. The storage has forgotten the token after its use; this mark is
for requests that read the storage before."""


def protect_codes(provider: OAuthProvider, once: SingleUse) -> None:
    """Accept each authorization code once."""
    original = method_of(provider, "exchange_authorization_code")

    async def exchange(client: OAuthClientInformationFull, authorization_code: AuthorizationCode) -> OAuthToken:
        # The SDK has checked the client and PKCE before, so nobody else can use up the code.
        if not await once.claim("code", authorization_code.code, until=time.time() + _CODE_SECONDS):
            raise TokenError("invalid_grant", "The authorization code was used before")
        tokens: OAuthToken = await original(client, authorization_code)
        return tokens

    setattr(provider, "exchange_authorization_code", exchange)  # noqa: B010  # mypy refuses an assignment to a method


def protect_refresh_tokens(provider: OAuthProvider, once: SingleUse, shared: SharedLogins) -> None:
    """Exchange each refresh token once. Requests with the same token wait for each other.

    If a replica is killed during the exchange, its lock ends, and the client can send the token again. The user must
    log in again if the token was replaced before the new one reached the client.
    """
    original = method_of(provider, "exchange_refresh_token")

    async def exchange(
        client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        token = refresh_token.token
        async with SharedLock(shared, "refreshing", token):
            if await provider.load_refresh_token(client, token) is None:  # another request was faster
                raise TokenError("invalid_grant", "The refresh token was used before")
            tokens: OAuthToken = await original(client, refresh_token, scopes)
        if not await once.claim("refresh", token, until=time.time() + _REFRESH_SECONDS):
            raise TokenError("invalid_grant", "The refresh token was used before")
        return tokens

    setattr(provider, "exchange_refresh_token", exchange)  # noqa: B010  # mypy refuses an assignment to a method


def protect_identity_assertions(provider: OAuthProvider, once: SingleUse) -> None:
    """Accept each identity assertion (ID-JAG) once."""
    original = method_of(provider, "exchange_identity_assertion")

    async def exchange(client: OAuthClientInformationFull, params: IdentityAssertionParams) -> OAuthToken:
        tokens: OAuthToken = await original(client, params)  # checks the assertion
        if not await _claim_assertion(once, "id-jag", params.assertion):
            raise TokenError("invalid_grant", "Invalid identity assertion")  # the text of all other refusals
        return tokens

    setattr(provider, "exchange_identity_assertion", exchange)  # noqa: B010  # mypy refuses an assignment to a method


def protect_client_assertions(manager: "CIMDClientManager", once: SingleUse) -> None:
    """Accept each assertion of a client (`private_key_jwt`) once."""
    original = method_of(manager, "validate_private_key_jwt")

    async def validate(assertion: str, client: Any, token_endpoint: str) -> bool:
        valid: bool = await original(assertion=assertion, client=client, token_endpoint=token_endpoint)
        if not await _claim_assertion(once, "assertion", assertion):
            raise ValueError("the assertion was used before")
        return valid

    setattr(manager, "validate_private_key_jwt", validate)  # noqa: B010  # mypy refuses an assignment to a method


async def _claim_assertion(once: SingleUse, kind: str, assertion: str) -> bool:
    """Mark a verified assertion as used. Return False if it was used before."""
    claims = cast("dict[str, Any]", json.loads(urlsafe_b64decode(assertion.split(".")[1].encode())))
    return await once.claim(kind, str(claims["iss"]), str(claims["jti"]), until=float(claims["exp"]) + SKEW_SECONDS)


def method_of(owner: Any, name: str) -> Callable[..., Awaitable[Any]]:
    """Return a method of the class, also if an earlier app in this process has replaced it in the object."""
    return partial(getattr(type(owner), name), owner)
