"""The caller of a request: its name, its identity, and what it may use."""

import hashlib
import json
import re
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import translate
from typing import TYPE_CHECKING, Any, Protocol

from fastmcp.server.auth import AccessToken as FastMCPAccessToken
from fastmcp.server.dependencies import get_access_token, get_http_request
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.authentication import AuthCredentials
from starlette.types import Scope

from anyreplica.http.request_record import RECORD, RequestRecord
from anyreplica.settings.rate import NO_RATE, Rate

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

ANYBODY = "anybody"
"""The owner of everything that requests create while authentication is off."""

_OF_A_KEY = "anyreplica-key:"
"""Start of the text that a tool gets in place of a token if its caller has a key."""

_REMEMBERED = 4096
"""Maximum number of tokens in the cache."""


class Caller(AuthenticatedUser):
    """An authenticated caller: the holder of a key, or the subject of a token.

    Args:
        name: the caller's name in the log, such as `key:ci`. It contains nothing secret. Two callers never have the
            same name.
        identity: issuer and subject of the caller as one value. Everything that is cached or counted for a caller has
            this key.
        owner: the owner of what this caller's requests create (jobs, tasks, sessions, request states). None: the
            identity. Several keys of one tenant may have the same owner.
        scopes: the caller's scopes, which FastMCP's `require_scopes` checks.
        tools: patterns for the names of the tools that the caller may use; None: all tools.
        rate: the caller's rate limit. None: that of callers without a limit of their own.
        token: the token that FastMCP's `get_access_token` returns to a tool.

    Attributes:
        credentials: the scopes for Starlette, which FastMCP's `RequireAuthMiddleware` on a custom route checks.
    """

    access_token: AccessToken

    def __init__(
        self,
        name: str,
        identity: str,
        *,
        owner: str | None = None,
        scopes: Iterable[str] = (),
        tools: tuple[str, ...] | None = None,
        rate: Rate | None = NO_RATE,
        token: AccessToken | None = None,
    ) -> None:
        # For a key, the token contains the caller's identity and not the key: a tool does not need the key. It must
        # not be empty, because FastMCP's cache of responses keeps the responses of different tokens apart.
        super().__init__(token or AccessToken(token=_OF_A_KEY + identity, client_id=name, scopes=list(scopes)))
        self.name = name
        self.credentials = AuthCredentials(list(self.scopes))
        self._identity = identity
        self.owner = identity if owner is None else owner
        self.tools = tools
        self.rate = rate
        self._allowed = None if tools is None else re.compile("|".join(map(translate, tools)) or r"(?!)")

    @property
    def identity(self) -> str:
        """Issuer and subject of the caller as one value."""
        return self._identity

    def speaking_for(self, user: "Caller") -> "Caller":
        """Return the caller for requests of a user that this caller makes, as a gateway with one key does.

        Its limits are those of this caller. What it owns and what is cached for it belongs to this user only.
        """
        made = Caller(
            f"{user.name}>{self.name}",
            self.identity,
            owner=f"{self.owner}>{user.owner}",
            tools=self.tools,
            rate=self.rate,
            token=user.access_token,
        )
        made.scopes = user.scopes
        made.credentials = AuthCredentials(list(user.scopes))
        return made

    def may_use(self, tool: str) -> bool:
        """Return whether this caller may use the tool or job of this name."""
        return self._allowed is None or self._allowed.match(tool) is not None


@dataclass(frozen=True)
class UnknownCaller:
    """A caller that ASGI middleware of the server's author may know, and that this package does not know.

    Nothing is cached for it.

    Attributes:
        owner: the owner of what the request creates.
        is_authenticated: whether the middleware has authenticated the caller. False: it may have done so.
    """

    owner: str
    is_authenticated: bool


def digest(*parts: str) -> str:
    """Return the SHA-256 of some texts. Different texts never become the same input of the hash."""
    joined = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(joined.encode(errors="surrogatepass")).hexdigest()


def caller_of(scope: Scope) -> Caller | None:
    """Return the caller of a request, or None if authentication found none.

    If this package has authenticated the caller, the same object is in the scope under `user`, where Starlette and
    FastMCP read it. If middleware of the server's author has set another object there, see `own_authentication`.
    """
    record: RequestRecord | None = scope.get(RECORD)
    return None if record is None else record.caller


def has_credentials(scope: Scope) -> bool:
    """Return whether the headers of a request contain credentials with which its caller has authenticated."""
    record: RequestRecord | None = scope.get(RECORD)
    if record is None:
        return False
    return record.caller is not None or (record.unknown is not None and record.unknown.is_authenticated)


def current_cache_key() -> Sequence[object] | None:
    """Return the part of a cache key that is different for each caller.

    It is empty if the caller of the current request did not authenticate. None: the caller is not known, so nothing
    may be cached. This is also so in tasks and jobs.
    """
    try:
        record: RequestRecord | None = get_http_request().scope.get(RECORD)
    except RuntimeError:
        return None
    if record is None or record.unknown is not None:
        return None
    caller: Caller | None = record.caller
    return () if caller is None else (caller.identity, caller.owner, caller.scopes)


def current_owner() -> str | None:
    """Return the owner of what the current request creates. None: anybody, or there is no request."""
    try:
        owner = owner_of(get_http_request().scope)
    except RuntimeError:
        return None
    return None if owner == ANYBODY else owner


def caller_token() -> str | None:
    """Return the token that the current caller got from an authorization server, or None if there is none.

    A caller with a key or a signature has no token, and a job has no caller.
    """
    token = get_access_token()
    return None if token is None or token.token.startswith(_OF_A_KEY) else token.token


def owner_of(scope: Scope) -> str:
    """Return the owner of what this request creates: its caller's owner, or `ANYBODY` without a caller."""
    record: RequestRecord | None = scope.get(RECORD)
    if record is None:
        return ANYBODY
    found: Caller | UnknownCaller | None = record.unknown or record.caller
    return ANYBODY if found is None else found.owner


def may_use(scope: Scope, tool: str) -> bool:
    """Return whether a request's caller may use the tool or job of this name."""
    caller = caller_of(scope)
    return caller is None or caller.may_use(tool)


class PublicKeys(Protocol):
    """The public keys with which callers prove their signatures."""

    def public_key(self, name: str) -> "Ed25519PublicKey | None":
        """Return the public key for the signatures of this key id, or None if there is no valid key."""

    def signer(self, name: str) -> Caller | None:
        """Return the caller that signs with the key of this id, or None if there is no valid key."""


class VerifiedTokens:
    """A cache of the callers of verified tokens, by the hash of the token.

    Args:
        seconds: maximum lifetime of an entry. 0: nothing is cached.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._known: OrderedDict[bytes, tuple[Caller, float]] = OrderedDict()

    def get(self, token: bytes) -> Caller | None:
        """Return the caller of a token that was verified a short time ago."""
        known = self._known.get(hashlib.sha256(token).digest())
        return known[0] if known is not None and time.time() < known[1] else None

    def put(self, token: bytes, caller: Caller, expires: float | None) -> None:
        """Remember a token for the lifetime of an entry, but not after it expires.

        Args:
            expires: when the token expires, in seconds since the epoch. None: it does not expire.
        """
        if not self._seconds:
            return
        digest = hashlib.sha256(token).digest()
        self._known.pop(digest, None)
        while len(self._known) >= _REMEMBERED:
            self._known.popitem(last=False)
        ends = time.time() + self._seconds
        self._known[digest] = caller, ends if expires is None else min(ends, expires)


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
