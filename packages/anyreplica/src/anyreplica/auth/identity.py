"""The names and identities of callers that have a verified token."""

import json
import re
from typing import Any

from fastmcp.server.auth import AccessToken as FastMCPAccessToken
from mcp.server.auth.provider import AccessToken

from anyreplica.auth.caller import Caller, digest
from anyreplica.settings.rate import Rate

_LONGEST_NAME = 255
"""Maximum number of characters in a `sub` claim (OpenID Connect Core, section 2)."""

_SHORT = re.compile(r"[A-Za-z0-9._-]{1,40}")
"""The name of a provider inside `MultiAuth` that its author chose. FastMCP's own names are long."""

_HASHED = "sha256-"
_SEPARATORS = re.compile("[%@>]")


def caller_of_token(
    found: AccessToken, issuer: str | None, *, kind: str, verifier: str = "", rate: Rate | None = None
) -> Caller:
    """Return the caller of a verified token.

    The caller is the user (`sub`) of one issuer (`iss`). Two clients of the same user are the same caller. A token
    without a user belongs to its client.

    Args:
        issuer: the issuer of the user; None: the token names none.
        kind: the beginning of the caller's name.
        verifier: what has verified the token. It takes the place of the issuer if there is none.
        rate: the rate limit of the caller. None: that of callers without a limit of their own.
    """
    source, client = _source(found)
    subject = found.subject or (found.claims or {}).get("sub")
    kind, who = (kind, subject) if isinstance(subject, str) and subject else (f"{kind}-client", client)
    # The number of parts differs, so that no issuer can have the identities of users without one.
    parts = (verifier, who, source or "", "no issuer") if issuer is None else (issuer, who, source or "")
    identity = f"{kind}:{digest(*parts)[:32]}"
    return Caller(f"{kind}:{readable(who, issuer, source)}", identity, rate=rate, token=_with_claims(found))


def readable(who: str, issuer: str | None = None, source: str | None = None) -> str:
    """Return a name for logs. Different users never have the same name.

    The parts are separated by `@`, and a part with this character is escaped.

    Args:
        issuer: the issuer of the user, or None.
        source: the provider inside `MultiAuth` that has verified the user, or None.
    """
    parts = [who]
    if issuer is not None or source is not None:
        parts.append("" if issuer is None else _without_scheme(issuer))
    if source is not None:
        parts.append(source if _SHORT.fullmatch(source) else digest(source)[:8])
    name = "@".join(_SEPARATORS.sub(lambda found: f"%{ord(found[0]):02X}", part) for part in parts)
    if not name.isprintable() or len(name) > _LONGEST_NAME or name.startswith(_HASHED):
        return f"{_HASHED}{digest(name)[:32]}"
    return name


def _without_scheme(issuer: str) -> str:
    """Return an issuer without `https://`. An issuer that is no URL begins with `//`, so that it has another name."""
    rest = issuer.removeprefix("https://")
    if rest != issuer and rest[:1] not in ("", "/") and "://" not in rest:
        return rest
    return issuer if "://" in issuer else f"//{issuer}"


def _source(found: AccessToken) -> tuple[str | None, str]:
    """Return the name of the provider inside `MultiAuth` that verified a token, or None, and the id of the client."""
    client = getattr(found, "original_client_id", None)
    if client is None:
        return None, found.client_id
    return str(json.loads(found.client_id)[0]), str(client)


def _with_claims(found: AccessToken) -> FastMCPAccessToken:
    """Return a token as FastMCP's type. FastMCP's proxy returns the SDK's type for an identity assertion."""
    if isinstance(found, FastMCPAccessToken):
        return found
    values: dict[str, Any] = found.model_dump(exclude={"claims"})
    return FastMCPAccessToken(**values, claims=found.claims or {})
