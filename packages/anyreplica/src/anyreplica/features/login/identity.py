"""The caller that a verified token identifies."""

import json
import re
from typing import Any

from fastmcp.server.auth import AccessToken as FastMCPAccessToken
from fastmcp.server.auth import AuthProvider
from mcp.server.auth.provider import AccessToken

from anyreplica.auth.caller import Caller, digest
from anyreplica.features.login.providers import issuing
from anyreplica.settings.rate import Rate

_LONGEST_NAME = 255
"""Maximum number of characters in a `sub` claim (OpenID Connect Core, section 2)."""
_SHORT = re.compile(r"[A-Za-z0-9._-]{1,40}")
"""The name of a provider inside `MultiAuth` that its author chose. FastMCP's own names are long."""


class Identities:
    """Makes callers from verified tokens. `rate` is the rate limit of each caller."""

    def __init__(self, provider: AuthProvider, rate: Rate) -> None:
        self._provider = type(provider).__name__
        self._own = {str(part.issuer_url) for part in issuing(provider)}
        self._rate = rate

    def caller(self, found: AccessToken) -> Caller:
        """Return the caller of a verified token.

        The caller is the user (`sub`) of one issuer (`iss`). Two clients of the same user are the same caller. A token
        without a user belongs to its client.
        """
        claims: dict[str, Any] = found.claims or {}
        source, client = _source(found)
        subject = found.subject or claims.get("sub")
        kind, who = ("login", subject) if isinstance(subject, str) and subject else ("login-client", client)
        issuer = self._issuer(claims)
        name = who if issuer is None else f"{who}@{issuer.removeprefix('https://').rstrip('/')}"
        if source is not None:
            name = f"{name}@{source if _SHORT.fullmatch(source) else digest(source)[:8]}"
        if not name.isprintable() or len(name) > _LONGEST_NAME:
            name = f"sha256-{digest(name)[:32]}"
        identity = f"{kind}:{digest(issuer or self._provider, who, source or '')[:32]}"
        return Caller(f"{kind}:{name}", identity, rate=self._rate, token=_with_claims(found))

    def _issuer(self, claims: dict[str, Any]) -> str | None:
        """Return the issuer of a user, or None if the token does not name an issuer."""
        issuer = claims.get("iss")
        if issuer in self._own:  # the server made this token from an identity assertion (ID-JAG)
            issuer = claims.get("assertion_iss", issuer)
        return str(issuer) if issuer else None


def _with_claims(found: AccessToken) -> FastMCPAccessToken:
    """Return a token as FastMCP's type. FastMCP's proxy returns the SDK's type for an identity assertion."""
    if isinstance(found, FastMCPAccessToken):
        return found
    return FastMCPAccessToken(**found.model_dump(exclude={"claims"}), claims=found.claims or {})


def _source(found: AccessToken) -> tuple[str | None, str]:
    """Return the name of the provider inside `MultiAuth` that verified a token, or None, and the id of the client."""
    client = getattr(found, "original_client_id", None)
    if client is None:
        return None, found.client_id
    return str(json.loads(found.client_id)[0]), str(client)
