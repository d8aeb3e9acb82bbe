"""The events of one call, on the replica that owns the call, and the round in which a call waits for its client.

A waiting round is in Redis, in a sealed form that any replica can read. If the replica of the call is lost, another
replica continues with the round.
"""

import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from mcp.server.request_state import AESGCMRequestStateCodec, InvalidRequestState
from pydantic_core import from_json

from anyreplica.features.sessions.event_store import DELIVERED_SECONDS, FOREIGN, UNKNOWN, EventStore, reader_topic
from anyreplica.features.sessions.resume_bytes import ResumeBytes
from anyreplica.http.responses import PING_SECONDS, UNAVAILABLE, encode
from anyreplica.settings.words import derived
from anyreplica.shared.lost_redis import PATIENT_SECONDS, PERSIST_SECONDS, retry_for
from anyreplica.shared.notifier import Notifier
from anyreplica.shared.outage import Outage

logger = logging.getLogger(__name__)

_FORMAT = 1
MOST_CHARACTERS = 256 * 1024
"""Maximum size of a sealed round. A call with a larger round is not taken over."""


@dataclass(frozen=True, slots=True)
class Question:
    """A request to the client that belongs to a round."""

    identity: str
    """The JSON-RPC id of the request."""
    method: str
    params: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class OpenRound:
    """A round that waits for the client's answers."""

    method: str
    """The JSON-RPC method of the call."""
    params: dict[str, Any]
    """The params of the call, as the client sent them."""
    version: str
    """The protocol version of the call."""
    number: int
    """Number of the round. The first round has number 0."""
    state: str | None
    """The state that the component returned."""
    questions: Mapping[str, Question]
    """The questions of this round, by the names that the component gave them."""


class RoundSeal:
    """Seals (encrypts and authenticates) rounds.

    Args:
        keys: REQUEST_STATE_KEYS. The first key seals, and every key opens.
        audience: the server's name. A round of a server with another name cannot be opened.
    """

    def __init__(self, keys: Sequence[str], audience: str) -> None:
        self._codec = AESGCMRequestStateCodec(derived(keys, "open round"))
        self._audience = audience

    def seal(self, stream: str, found: OpenRound) -> str:
        """Return a round in sealed form. It is valid only for the call with this event stream."""
        questions = {name: [each.identity, each.method, each.params] for name, each in found.questions.items()}
        call = [found.method, found.params, found.version, found.number, found.state]
        return self._codec.seal(encode([_FORMAT, self._audience, stream, *call, questions]))

    def open(self, stream: str, sealed: str) -> OpenRound | None:
        """Return a round from its sealed form. None: it is invalid, or from another version of this package."""
        try:
            form, audience, sealed_for, method, params, version, number, state, asked = from_json(
                self._codec.unseal(sealed)
            )
        except (InvalidRequestState, ValueError):
            return None
        if form != _FORMAT or audience != self._audience or sealed_for != stream:
            return None
        questions = {name: Question(*each) for name, each in asked.items()}
        return OpenRound(method, params, version, number, state, questions)


def new_identity() -> str:
    """Return a random id for a request to a client. It is unique on all replicas, and no other client can guess it."""
    return secrets.token_urlsafe(16)


_MOST_LATE = 1000
"""Maximum number of results that wait for Redis."""


class ReplicaEvents:
    """What the events of all calls that a replica runs have in common.

    Attributes:
        store: the store that all replicas share.
        owner: random text that identifies this replica.
        kept: the limits of what this replica keeps.
        seal: encrypts rounds.
        notifier: wakes other replicas.
        seconds: time for which a call goes on without a connection, and for which its events stay after its end.
        outage: what an outage of Redis means for a call in a round.
        running_here: the events of the calls that this replica runs, by stream. It does not keep a call whose reply is
            over, for example because the client left while the call began its events.
        late: results of calls without a connection that did not reach Redis. They are written when Redis is back.
    """

    def __init__(
        self, store: EventStore, sizes: ResumeBytes, seal: RoundSeal, notifier: Notifier, seconds: float
    ) -> None:
        self.store = store
        self.owner = secrets.token_hex(8)
        self.sizes = sizes
        self.seal = seal
        self.notifier = notifier
        self.seconds = seconds
        self.outage = Outage(logger, "no other replica can take over a call")
        self.running_here: WeakValueDictionary[str, CallEvents] = WeakValueDictionary()
        self.late: list[tuple[CallEvents, bytes]] = []


class CallEvents:
    """The events of one call, on the replica that owns the call."""

    __slots__ = (
        "__weakref__",
        "_keep_after",
        "_log",
        "_loss_is_noted",
        "_mark",
        "_request",
        "_round",
        "_stream",
        "_written",
    )

    def __init__(self, log: ReplicaEvents, stream: str, request: str) -> None:
        self._log = log
        self._stream = stream
        self._request = request
        """The JSON-RPC id of the call, as JSON."""
        self._loss_is_noted = True
        self._round: tuple[str, int] | None = None
        """The sealed round in which the call waits for its client, and its number."""
        self._mark = secrets.token_hex(8)
        """Begins the marks of the events. A replica may own a call twice, so its own id would not do."""
        self._written = 0
        """Number of events that this object has written."""
        self._keep_after = 0.0
        log.running_here[stream] = self

    @property
    def first_id(self) -> str:
        """The id of the empty event before all others, with which a client can resume the whole stream."""
        return f"{self._stream}.0"

    @property
    def seconds(self) -> float:
        """Time for which the call goes on without a client, in seconds."""
        return self._log.seconds

    def taken_over(self, on_reader: Callable[[], object]) -> AbstractContextManager[None]:
        """Call `on_reader` when a client follows these events over another connection, inside the `with` block."""
        return self._log.notifier.listening(reader_topic(self._stream), on_reader)

    async def append(
        self, event: bytes, *, last: bool, delivered: bool, needed: bool = False, is_counted: bool = False
    ) -> str | None:
        """Write an event and return its id. Return None if this replica no longer owns the call.

        The id is empty if the store has lost the call. Then the client cannot resume it.

        If the event is larger than the store may keep for the call, the store does not get it. In the place of the last
        event, the store then gets an error for the client that resumes the call.

        Args:
            event: the message.
            last: whether the message ends the call.
            delivered: whether the event goes to a client whose connection is open. The events of a call do not stay
                long after a last event that is delivered, so that calls cannot fill the store.
            needed: whether the call waits for an answer to this event. Then, and if the last event is only in the store
                because it is not delivered, this method tries again for some seconds if the store cannot be reached.
            is_counted: whether the event counts for the limits already, because an earlier try has failed.

        Raises:
            OSError: the store cannot be reached.
        """
        store, owner, sizes = self._log.store, self._log.owner, self._log.sizes
        self._written += 1
        mark = f"{self._mark}:{self._written}"
        limit = sizes.reserve(self._stream, len(event), beyond=is_counted)
        if not limit:
            event = self._too_large(len(event)) if last else b""
            limit = sizes.reserve(self._stream, len(event), beyond=True) if last else 0
        write = partial(store.append, self._stream, owner, event, mark, limit, last=last, delivered=delivered)
        persists = needed or (last and not delivered)
        seconds = PERSIST_SECONDS if needed else PATIENT_SECONDS  # the result of a call must not delay a stop
        try:
            number, size = await (retry_for(write, seconds) if persists else write())
        except OSError:
            if last and persists and len(self._log.late) < _MOST_LATE:
                self._log.late.append((self, event))  # nobody else has the result
            elif last:
                self.end()
            raise
        if last:
            self.end()
        if number == FOREIGN:
            sizes.forget(self._stream)
            return None
        sizes.settle(self._stream, size, DELIVERED_SECONDS if last and delivered else None)
        return "" if number == UNKNOWN else f"{self._stream}.{number}"

    def _too_large(self, size: int) -> bytes:
        """Return the error that takes the place of the result of a call."""
        text = (
            f"The call has ended, but its result of {size} bytes was not kept for a client that resumes the call: "
            f"{self._log.sizes.describe()}. Call the tool again."
        )
        error = encode({"code": UNAVAILABLE, "message": text}).decode()
        return f'{{"jsonrpc":"2.0","id":{self._request},"error":{error}}}'.encode()

    def end(self) -> None:
        """Note that this replica no longer runs the call."""
        if self._log.running_here.get(self._stream) is self:
            del self._log.running_here[self._stream]

    async def wait_in_round(self, found: OpenRound) -> bool:
        """Note that the call waits for its client in a round. Return whether another replica can take the call over.

        If none can, the call goes on, and it ends with an error if this replica is lost.
        """
        sealed = self._log.seal.seal(self._stream, found)
        if len(sealed) > MOST_CHARACTERS:
            text = "A round is too large for another replica to take it over: %d characters; the limit is %d"
            logger.warning(text, len(sealed), MOST_CHARACTERS)
            return False
        if not self._log.sizes.set_round(self._stream, len(sealed)):
            logger.warning("No other replica can take over a call: %s", self._log.sizes.describe())
            return False
        self._round = sealed, found.number
        with self._log.outage.best_effort():  # `hand_over` makes the note, too
            await retry_for(partial(self._log.store.wait_in_round, self._stream, self._log.owner, *self._round))
        return True

    async def end_round(self) -> bool:
        """Note that the call goes on with its next round. Return False if this replica no longer owns the call.

        After True, no other replica begins this round.

        Raises:
            OSError: the store cannot be reached for some seconds.
        """
        if self._round is None:
            return True
        (_, number), self._round = self._round, None
        self._log.sizes.set_round(self._stream, 0)
        is_mine = await retry_for(partial(self._log.store.end_round, self._stream, self._log.owner, number))
        if not is_mine:
            self._log.sizes.forget(self._stream)
        return is_mine

    async def hand_over(self) -> bool:
        """Let another replica take over the call, if the call waits for its client.

        Return whether this replica no longer owns the call.

        Raises:
            OSError: the store cannot be reached for some seconds.
        """
        sealed, number = self._round or ("", 0)
        hand_over = partial(self._log.store.hand_over, self._stream, self._log.owner, sealed, number)
        is_released = await retry_for(hand_over, PATIENT_SECONDS)  # the call is not watched during this time
        if is_released:
            self._log.sizes.forget(self._stream)
        return is_released

    async def lose_reader(self) -> None:
        """Note that the client has lost the connection of the call. It has some time to resume.

        Raises:
            OSError: the store cannot be reached for some seconds. `has_reader` then makes the note.
        """
        self._loss_is_noted = False
        await retry_for(self._note_loss, PATIENT_SECONDS)  # the call is not watched during this time

    async def keep(self) -> None:
        """Keep the events of a call whose client is connected. Ask the store at most every `PING_SECONDS`.

        Raises:
            OSError: the store cannot be reached.
        """
        if time.monotonic() >= self._keep_after:
            self._keep_after = time.monotonic() + PING_SECONDS
            await self._log.store.keep(self._stream)
            self._log.sizes.keep(self._stream)

    async def has_reader(self) -> bool:
        """Keep the events, and return whether a client follows them or has time to resume.

        Raises:
            OSError: the store cannot be reached.
        """
        await self._log.store.keep(self._stream)
        self._log.sizes.keep(self._stream)
        if not self._loss_is_noted:
            await self._note_loss()
        return await self._log.store.is_followed(self._stream)

    async def _note_loss(self) -> None:
        await self._log.store.follow(self._stream, self._log.seconds)
        self._loss_is_noted = True
