"""The response of a token endpoint. The client trusts nothing in it without a check."""

import re
from dataclasses import dataclass, field
from typing import Any

import httpx2
from pydantic_core import from_json

from anyreplica.features.downstream.errors import Unusable

MOST_TOKEN_BYTES = 64 * 1024
"""Maximum size of the response, in bytes."""

_TOKEN = re.compile(r"[\x21-\x7e]{1,16384}")
"""Pattern of a token that an Authorization header can carry."""
_UNSTATED_SECONDS = 60.0
"""Validity of a token whose response does not state one."""
_MOST_SECONDS = 3600.0
"""Maximum time for which a token is kept. So a token that is valid for days is renewed, and a user who lost rights
loses them here, too."""
_MARGIN_SECONDS = 30.0
_MARGIN_SHARE = 0.1

_CODES = frozenset(
    {
        # RFC 6749, section 5.2
        "invalid_request",
        "invalid_client",
        "invalid_grant",
        "unauthorized_client",
        "unsupported_grant_type",
        "invalid_scope",
        # RFC 8693, section 2.2.2
        "invalid_target",
        # OpenID Connect Core, section 3.1.2.6: the user must log in again, or must agree
        "interaction_required",
    }
)


@dataclass(frozen=True, slots=True)
class ExchangedToken:
    """A token for an API."""

    text: str = field(repr=False)
    seconds: float
    """Time for which the token may be kept. 0: only the calls that wait for it may use it."""


def exchanged_token(response: httpx2.Response, host: str, subject: str) -> ExchangedToken:
    """Return the token of a response with a 2xx status.

    Args:
        response: the response.
        host: host of the token endpoint.
        subject: the caller's token.

    Raises:
        Unusable: the response contains no token that the client can use.
    """
    said = _object(response)
    if said is None:
        raise Unusable(f"{host} sent no JSON object")
    token, kind = said.get("access_token"), said.get("token_type")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise Unusable(f"{host} sent no token of the type Bearer")
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise Unusable(f"{host} sent no token that a header can carry")
    if token == subject:
        raise Unusable(f"{host} sent the caller's own token, which no API may get")
    return ExchangedToken(token, _cache_seconds(said.get("expires_in")))


def error_code(response: httpx2.Response) -> str:
    """Return the error code of a response, or an empty text if it has none that is known."""
    code = (_object(response) or {}).get("error")
    return code if isinstance(code, str) and code in _CODES else ""


def _object(response: httpx2.Response) -> dict[str, Any] | None:
    try:
        said = from_json(response.content, allow_inf_nan=False)
    except ValueError:
        return None
    return said if isinstance(said, dict) else None


def _cache_seconds(expires_in: object) -> float:
    """Return how long a token is kept, in seconds: until 30 s before it expires, or nine tenths of its lifetime."""
    if expires_in is None:
        return _UNSTATED_SECONDS
    if isinstance(expires_in, str) and expires_in.isascii() and expires_in.isdecimal() and len(expires_in) < 20:
        expires_in = int(expires_in)  # some servers send the number as text
    if isinstance(expires_in, bool) or not isinstance(expires_in, int | float):
        return 0.0
    seconds = float(max(0, min(expires_in, _MOST_SECONDS)))
    return seconds - min(_MARGIN_SECONDS, seconds * _MARGIN_SHARE)
