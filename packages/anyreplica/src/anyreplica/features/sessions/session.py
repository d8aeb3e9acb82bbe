"""The session of a handshake-protocol client, and the session id that contains it.

A session id is a sealed (encrypted and authenticated) text. Any replica with the same REQUEST_STATE_KEYS reads the
session from it, so no replica stores sessions. (MCP 2025-11-25, Transports, "Session Management".)
"""

import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cachetools import FIFOCache
from mcp.server.request_state import AESGCMRequestStateCodec, InvalidRequestState
from mcp_types import InitializeRequestParams
from pydantic_core import from_json

from anyreplica.http.refusal import Refused
from anyreplica.http.responses import encode
from anyreplica.settings.words import derived

_FORMAT = 1
_LONGEST_ID = 4096
"""Maximum number of characters of a session id. Proxies limit the size of a request head to 8 KiB or more."""
_FULL = 2000
"""Maximum size of the client's information and capabilities in a session id, in bytes. Larger ones are shortened."""
_LONGEST_NAME = 100
_PARTS: dict[str, tuple[str, ...]] = {
    "roots": ("listChanged",),
    "sampling": ("tools", "context"),
    "elicitation": ("form", "url"),
}
"""The capabilities that a server uses in requests to clients, with their parts."""
_REMEMBERED = 256
"""Maximum number of opened session ids that a replica remembers."""


@dataclass(frozen=True)
class Session:
    """One session: what the client sent in `initialize`, the caller, and the end of the session."""

    key: str
    """A random text that identifies the session in the store of answers."""
    version: str
    """The protocol version that client and server agreed on."""
    owner: str
    """A hash of the caller that started the session."""
    expires: float
    """Time at which the session ends, in seconds since 1970."""
    described: str
    """The client's information and capabilities, as JSON. The model takes 3.6 kB, and an idle stream never needs it."""

    @cached_property
    def client(self) -> InitializeRequestParams:
        """The client's name, version and capabilities."""
        info, capabilities = from_json(self.described)
        params = {"protocolVersion": self.version, "clientInfo": info, "capabilities": capabilities}
        return InitializeRequestParams.model_validate(params)


class SessionIds:
    """Seals sessions as ids, and opens ids.

    Args:
        keys: REQUEST_STATE_KEYS. The first key seals, and every key opens.
        audience: the server's name. An id from a server with another name cannot be opened.
        seconds: lifetime of a session.
    """

    def __init__(self, keys: Sequence[str], audience: str, seconds: float) -> None:
        # Request states have other keys. So a session id is not valid as a request state, nor the other way round.
        self._codec = AESGCMRequestStateCodec(derived(keys, "session id"))
        self._audience = audience
        self._seconds = seconds
        self._opened: FIFOCache[str, Session] = FIFOCache(_REMEMBERED)

    def seal(self, version: str, info: Mapping[str, Any], capabilities: Mapping[str, Any], owner: str) -> str:
        """Return a new session id for the caller `owner`."""
        client = [dict(info), dict(capabilities)]
        if len(encode(client)) > _FULL:
            client = [_shortened(info), _reduced(capabilities)]
        session = [secrets.token_urlsafe(16), version, *client, _hash(owner), time.time() + self._seconds]
        return self._codec.seal(encode([_FORMAT, self._audience, *session]))

    def open(self, sealed: str, owner: str) -> Session:
        """Return the session of an id.

        Raises:
            Refused: HTTP 404: the id is invalid, has expired, or belongs to another caller, who does not learn that the
                session exists. The client must start a new session.
        """
        session = self._opened.get(sealed)
        if session is None:
            session = self._unsealed(sealed)
            self._opened[sealed] = session
        if session.expires <= time.time() or not hmac.compare_digest(session.owner, _hash(owner)):
            raise unknown_session()
        return session

    def _unsealed(self, sealed: str) -> Session:
        try:
            if len(sealed) > _LONGEST_ID:
                raise unknown_session()
            form, audience, *session = from_json(self._codec.unseal(sealed))
        except (InvalidRequestState, ValueError):
            raise unknown_session() from None
        if form != _FORMAT or audience != self._audience:
            raise unknown_session()
        key, version, *client, caller, expires = session
        return Session(key, version, caller, expires, encode(client).decode())


def unknown_session() -> Refused:
    """Return the refusal after which a client starts a new session (HTTP 404)."""
    return Refused(404, "Unknown or expired session; send initialize to start a new session.")


def _hash(owner: str) -> str:
    return hashlib.sha256(owner.encode(errors="surrogatepass")).hexdigest()[:32]


def _shortened(info: Mapping[str, Any]) -> dict[str, Any]:
    return {name: str(info.get(name, ""))[:_LONGEST_NAME] for name in ("name", "version")}


def _reduced(capabilities: Mapping[str, Any]) -> dict[str, Any]:
    """Return only those parts of the capabilities that a server uses in requests to clients, without their contents."""
    return {
        name: {part: value if isinstance(value, bool) else {} for part, value in given.items() if part in parts}
        for name, parts in _PARTS.items()
        if isinstance(given := capabilities.get(name), Mapping)
    }
