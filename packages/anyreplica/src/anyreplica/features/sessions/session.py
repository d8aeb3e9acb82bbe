"""The session of a handshake-protocol client, the session id that contains it, and its calls that wait for the client.

A session id is a sealed (encrypted and authenticated) text. Any replica with the same REQUEST_STATE_KEYS reads the
session from it, so no replica stores sessions. (MCP 2025-11-25, Transports, "Session Management".)
"""

import contextlib
import hashlib
import hmac
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cachetools import FIFOCache
from mcp.server.request_state import AESGCMRequestStateCodec, InvalidRequestState
from mcp_types import InitializeRequestParams
from pydantic_core import from_json

from anyreplica.components.call_limits import Pauses
from anyreplica.http.json_values import memory_of
from anyreplica.http.limits import InFlight, Memory, Shares
from anyreplica.http.responses import UNAVAILABLE, Refused, encode
from anyreplica.mcp.call import ClientRequestError
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


class WaitingCalls:
    """The calls of a replica that wait for their clients.

    A client may answer after minutes. So a call that waits does not count as a request in flight, and its memory does
    not count with the memory of these requests. Both have limits of their own.

    Args:
        in_flight: the counter of requests in flight.
        memory: the counter of their memory.
        most: maximum number of requests to clients that wait for an answer.
    """

    def __init__(self, in_flight: InFlight, memory: Memory, most: int) -> None:
        self.in_flight = in_flight
        self.memory = memory
        self.requests = Shares(most)
        self.bytes = Shares(memory.most // 2)

    def check_request(self, caller: str) -> None:
        """Raise `ClientRequestError` if one more request to a client would be beyond a limit."""
        requests = self.requests
        if requests.used >= requests.most:
            text = f"Server busy: {requests.most} requests to clients (MAX_CLIENT_REQUESTS); retry later."
            raise ClientRequestError(UNAVAILABLE, text)
        if requests.room(caller) <= 0:
            text = (
                f"Too many calls of this caller wait for their client: {requests.share} requests to clients, half of "
                "MAX_CLIENT_REQUESTS; answer or cancel some of them."
            )
            raise ClientRequestError(UNAVAILABLE, text)

    def check_bytes(self, caller: str, size: int) -> None:
        """Raise `ClientRequestError` if so many more bytes in calls that wait would be beyond a limit."""
        found = self.bytes
        if found.used + size > found.most:
            text = (
                f"Server busy: no memory for this call while it waits for its client; the limit of all calls that wait "
                f"is {found.most} bytes (half of MAX_BUFFERED_BYTES); retry later."
            )
            raise ClientRequestError(UNAVAILABLE, text)
        if found.room(caller) < size:
            text = (
                f"The calls of this caller that wait for their client use too much memory, with arguments and answers: "
                f"the limit is {found.share} bytes (a quarter of MAX_BUFFERED_BYTES); send less data, or answer or "
                "cancel some of the calls."
            )
            raise ClientRequestError(UNAVAILABLE, text)


class WaitingCall:
    """One call, which waits for its client again and again.

    Args:
        caller: the caller whose share of the limits counts.
        params: the params of the call, which stay in memory while the call waits.
        counted: the memory of the request that counts while the call is in flight, in bytes. 0: the request is small.
    """

    def __init__(self, all_calls: WaitingCalls, caller: str, params: Mapping[str, Any] | None, counted: int) -> None:
        self.pauses = Pauses()
        """The time for which the call has waited for its client."""
        self._all = all_calls
        self._caller = caller
        self._params = params
        self._counted = counted
        self._answers = 0
        """Memory of the answers that the call has got, in bytes."""
        self._waiting = 0
        """Memory that counts now, because the call waits, in bytes."""
        self._has_ended = False

    @contextlib.contextmanager
    def waiting(self, *, beyond: bool) -> Iterator[None]:
        """Count the call as one that waits for its client, inside the `with` block.

        Args:
            beyond: whether to ignore the limits, because another replica has already asked the client.

        Raises:
            ClientRequestError: the caller or this replica has reached a limit.
        """
        every, caller = self._all, self._caller
        if not beyond:
            every.check_request(caller)
        if not self.pauses.is_open:
            self._begin(beyond=beyond)
        every.requests.add(caller, 1)
        try:
            with self.pauses.pause():
                yield
        finally:
            every.requests.add(caller, -1)
            if not self.pauses.is_open:
                self._end()

    def note_answer(self, answer: bytes) -> None:
        """Count the memory of an answer of the client until the end of the call. The call waits now.

        Raises:
            ClientRequestError: the answer is larger than the caller or this replica may keep.
        """
        size = memory_of(answer)
        self._all.check_bytes(self._caller, size)
        self._answers += 0 if self._has_ended else size
        self._waiting += size
        self._all.bytes.add(self._caller, size)

    def begin(self) -> None:
        """Note that a task runs for the call. The FastMCP path may go on with a call of the fast path."""
        self._has_ended = False

    def end(self) -> None:
        """Stop counting the answers, because the task of the call has ended or is being cancelled."""
        self._has_ended = True
        if not self.pauses.is_open:
            self._all.memory.release(self._answers)
        self._answers = 0

    def _begin(self, *, beyond: bool) -> None:
        """Count the call as waiting, and no longer as in flight."""
        size = self._answers + (self._counted or memory_of(encode(self._params)))
        if not beyond:
            self._all.check_bytes(self._caller, size)
        self._waiting = size
        self._all.bytes.add(self._caller, size)
        self._all.in_flight.release()
        self._all.memory.release(self._counted + self._answers)

    def _end(self) -> None:
        """Count the call as in flight again, even beyond the limits, if other calls have taken its place."""
        self._all.bytes.add(self._caller, -self._waiting)
        self._waiting = 0
        self._all.in_flight.acquire_beyond()
        self._all.memory.acquire_beyond(self._counted + self._answers)
