"""The store of the events of calls that a client can resume, and of the round that a call waits in.

One replica owns each call. Only the owner writes events of the call and begins its rounds. So a stalled replica does no
harm when it wakes up after another replica has taken over its call.
"""

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple, Protocol

from anyreplica.features.sessions.resume_bytes import EVENT_BYTES
from anyreplica.shared.expiring import Expiring
from anyreplica.shared.notifier import COMMAND_PREFIX, Notifier

FOREIGN, UNKNOWN = 0, -1
"""Results of a change of a call. `FOREIGN`: another replica owns the call, or the call is over. `UNKNOWN`: the store no
longer has the call."""
MOST_EVENTS = 10_000
"""Maximum number of events of a call in the store. Beyond it, the store drops the oldest event."""
PART_BYTES = 256 * 1024
"""Bytes after which a part of the events ends. The next event is in the next part."""
SLACK_SECONDS = 60
"""Time for which the events stay in the store after the time in which a client can resume, in seconds."""
DELIVERED_SECONDS = 10
"""Time for which the events stay after the result was sent, in seconds. Only a client that lost it needs them."""


@dataclass(frozen=True, slots=True)
class EventPart:
    """The events of a call after a number of events, as the log has them."""

    events: list[bytes]
    dropped: int
    """Number of events at the beginning of the call that the store no longer has."""
    has_more: bool
    """Whether the store has more events than this part."""
    is_whole: bool
    """Whether the call has written its last event."""
    reader: str
    """Random text that identifies the newest reader of the events."""
    owner: str
    """Random text that identifies the replica that runs the call."""
    request: str
    """The JSON-RPC id of the call, as JSON."""


class WrittenEvent(NamedTuple):
    """The result of writing an event."""

    number: int
    """The number of the event, which begins with 1; or `FOREIGN` or `UNKNOWN`."""
    size: int = 0
    """Bytes of all events of the call that the store has now."""


class EventStore(Protocol):
    """The store of events. Each method raises OSError if the store cannot be reached."""

    async def begin(self, stream: str, session: str, owner: str, request: str) -> None:
        """Begin the events of a call."""

    async def append(
        self, stream: str, owner: str, event: bytes, mark: str, limit: int, *, last: bool, delivered: bool
    ) -> WrittenEvent:
        """Write an event and drop the oldest events until all of them have at most `limit` bytes.

        If the event itself is larger than `limit`, only its number is used up.

        `mark` is another one for each event. If the newest event has the same mark, it is this event, and only the
        reply was lost. `delivered` means that the event goes to a client whose connection is open. Write nothing and
        return `FOREIGN` if the call has another owner or has written its last event; return `UNKNOWN` if the store has
        lost the call.
        """

    async def wait_in_round(self, stream: str, owner: str, sealed: str, number: int) -> bool:
        """Note that a call waits for its client, with the sealed round. Return False if the call has another owner.

        Note nothing if the call has already left the round with this number: Redis does the commands of two
        connections in any order.
        """

    async def end_round(self, stream: str, owner: str, number: int) -> bool:
        """Note that a call no longer waits for its client. Return False if the call has another owner."""

    async def hand_over(self, stream: str, owner: str, sealed: str, number: int) -> bool:
        """Give up the call of an owner, so that another replica can take it over.

        If the store does not have the sealed round yet, note it as `wait_in_round` does. An empty text: the call does
        not wait in a round.

        Return False if the owner keeps the call, because it does not wait for its client. Return True if the owner no
        longer owns the call: it gave the call up, another replica owns it, or the call is over.
        """

    async def take_over(self, stream: str, lost: str, owner: str) -> str | None:
        """Make `owner` the owner of a call that waits for its client, if its owner is still `lost`.

        Return the sealed round. Return an empty text if the call does not wait, and None if it has another owner than
        `lost`.
        """

    async def show_life(self, owner: str) -> None:
        """Note that a replica runs."""

    async def show_end(self, owner: str) -> None:
        """Note that a replica has ended."""

    async def silence(self, owner: str) -> float:
        """Return the seconds since a replica last showed that it runs. Infinity: it has ended, or long ago."""

    async def read(self, stream: str, session: str, after: int) -> EventPart | None:
        """Return the first events after a number, with at least one if there is one. None: this session has no such
        stream.
        """

    async def set_reader(self, stream: str, reader: str) -> None:
        """Make a reader the newest one."""

    async def keep(self, stream: str) -> None:
        """Keep the events of a call that goes on."""

    async def follow(self, stream: str, seconds: float) -> None:
        """Note that a reader follows the events, for some seconds."""

    async def is_followed(self, stream: str) -> bool:
        """Return whether a reader follows the events."""


@dataclass(slots=True)
class _Stream:
    session: str
    owner: str
    request: str
    reader: str = ""
    events: deque[bytes] = field(default_factory=deque)
    size: int = 0
    dropped: int = 0
    is_whole: bool = False
    followed: float = 0.0


class LocalEvents:
    """The store of a single replica, in its memory."""

    def __init__(self, seconds: float, notifier: Notifier) -> None:
        self._seconds = seconds + SLACK_SECONDS
        self._notifier = notifier
        self._streams: Expiring[_Stream] = Expiring()

    async def begin(self, stream: str, session: str, owner: str, request: str) -> None:
        self._streams.expire()
        self._streams.add(stream, _Stream(session, owner, request), self._seconds)

    async def append(
        self,
        stream: str,
        owner: str,  # noqa: ARG002
        event: bytes,
        mark: str,  # noqa: ARG002
        limit: int,
        *,
        last: bool,
        delivered: bool,
    ) -> WrittenEvent:
        found = self._streams.get(stream)
        if found is None:
            return WrittenEvent(UNKNOWN)
        if found.is_whole:
            return WrittenEvent(FOREIGN)
        found.events.append(event)
        found.size += len(event) + EVENT_BYTES
        while found.size > limit or len(found.events) > MOST_EVENTS:
            found.size -= len(found.events.popleft()) + EVENT_BYTES
            found.dropped += 1
        found.is_whole = last
        self._streams.keep(stream, DELIVERED_SECONDS if last and delivered else self._seconds)
        self._notifier.wake(name_of(stream))
        return WrittenEvent(found.dropped + len(found.events), found.size)

    async def read(self, stream: str, session: str, after: int) -> EventPart | None:
        found = self._streams.get(stream)
        if found is None or found.session != session:
            return None
        rest = islice(found.events, max(0, after - found.dropped), None)
        events, has_more = first_part(rest)
        return EventPart(events, found.dropped, has_more, found.is_whole, found.reader, found.owner, found.request)

    async def show_life(self, owner: str) -> None:  # noqa: ARG002
        """Drop what has expired: the only replica needs no sign of life."""
        self._streams.expire()

    async def show_end(self, owner: str) -> None:
        """Do nothing: no other replica could ask."""

    async def silence(self, owner: str) -> float:  # noqa: ARG002
        return 0.0

    async def wait_in_round(self, stream: str, owner: str, sealed: str, number: int) -> bool:  # noqa: ARG002
        return True

    async def end_round(self, stream: str, owner: str, number: int) -> bool:  # noqa: ARG002
        return True

    async def hand_over(self, stream: str, owner: str, sealed: str, number: int) -> bool:  # noqa: ARG002
        return False  # no other replica could take it over

    async def take_over(self, stream: str, lost: str, owner: str) -> str | None:  # noqa: ARG002
        return None

    async def set_reader(self, stream: str, reader: str) -> None:
        found = self._streams.get(stream)
        if found is not None:
            found.reader = reader

    async def keep(self, stream: str) -> None:
        self._streams.keep(stream, self._seconds)

    async def follow(self, stream: str, seconds: float) -> None:
        found = self._streams.get(stream)
        if found is not None:
            found.followed = time.monotonic() + seconds

    async def is_followed(self, stream: str) -> bool:
        found = self._streams.get(stream)
        return found is not None and found.followed > time.monotonic()


def first_part(events: Iterable[bytes]) -> tuple[list[bytes], bool]:
    """Return the first events, up to `PART_BYTES`, and whether there are more."""
    found: list[bytes] = []
    size = 0
    for event in events:
        if found and size + len(event) > PART_BYTES:
            return found, True
        found.append(event)
        size += len(event)
    return found, False


def name_of(stream: str) -> str:
    """Return the name of the wake-ups for new events of a call."""
    return f"events:{stream}"


def reader_topic(stream: str) -> str:
    """Return the name of the wake-ups for a new reader of a call's events."""
    return f"{COMMAND_PREFIX}reader:{stream}"  # a command: do not repeat it after a reconnect to Redis
