"""The limits of the memory for calls that clients can resume: by call, by caller, by replica, and by time."""

from dataclasses import dataclass

from anyreplica.http.limits import Shares
from anyreplica.shared.expiring import Expiring

EVENT_BYTES = 64
"""Bytes that an event counts in addition to its text."""
_CALL_BYTES = 2048
"""Bytes that a call counts in addition to its events: its keys in Redis, and the error that takes the place of a result
that is too large."""
_CALLS = 8
"""The events of one call may use the memory divided by this number."""


@dataclass(slots=True)
class _StoredCall:
    caller: str
    events: int = 0
    """Bytes of the events that the store has, or that are on their way to it."""
    round: int = 0
    """Bytes of the sealed round."""


class ResumeBytes:
    """Counts the bytes that this replica has written to the store of events, until they expire there.

    The store itself may be in Redis. Then each replica counts what it writes for its own calls. So all replicas
    together keep at most `most` times the number of replicas.

    Args:
        most: RESUME_BYTES, the limit of this replica.
        seconds: time for which the store keeps the events of a call after a change.
    """

    def __init__(self, most: int, seconds: float) -> None:
        self.by_call = most // _CALLS
        self.refused = 0
        """Number of calls, events and rounds that were not kept because of a limit."""
        self._shares = Shares(most)
        self._seconds = seconds
        self._calls: Expiring[_StoredCall] = Expiring(self._release)

    @property
    def used(self) -> int:
        """Number of bytes that this replica keeps."""
        return self._shares.used

    def describe(self) -> str:
        """Return the limits, for errors."""
        return (
            f"the limits are {self.by_call} bytes for one call, {self._shares.share} bytes for all calls of one "
            f"caller, and {self._shares.most} bytes for a replica (RESUME_BYTES)"
        )

    def begin(self, stream: str, caller: str) -> bool:
        """Count a new call. Return False if the caller or this replica has reached its limit."""
        self._calls.expire()
        if self._shares.room(caller) < _CALL_BYTES:
            self.refused += 1
            return False
        self.adopt(stream, caller)
        return True

    def adopt(self, stream: str, caller: str, size: int = 0) -> None:
        """Count a call that this replica has taken over, even beyond the limits: the store has it already.

        Args:
            size: bytes of the events that the store has.
        """
        self._shares.add(caller, _CALL_BYTES + size)
        self._calls.add(stream, _StoredCall(caller, size), self._seconds)

    def reserve(self, stream: str, size: int, *, beyond: bool = False) -> int:
        """Count a new event. Return the bytes that all events of the call may have from now on.

        0: the event is larger than the call may keep. `beyond` counts the event beyond the limits.
        """
        call, cost = self._calls.get(stream), size + EVENT_BYTES
        if call is None:  # the call was quiet for so long that the store has forgotten it
            return cost if beyond else 0
        most = call.events + cost
        if not beyond:
            most = min(most, self.by_call, call.events + max(0, self._shares.room(call.caller)))
        if cost > most:
            self.refused += 1
            return 0
        self._change(call, most)
        return most

    def settle(self, stream: str, size: int, seconds: float | None = None) -> None:
        """Note the bytes that the store has for the events of a call now. They expire in `seconds`."""
        call = self._calls.get(stream)
        if call is not None:
            self._change(call, size)
            self._calls.keep(stream, self._seconds if seconds is None else seconds)

    def keep(self, stream: str) -> None:
        """Note that the store keeps the events of a call for longer."""
        self._calls.keep(stream, self._seconds)

    def set_round(self, stream: str, size: int) -> bool:
        """Count the sealed round of a call; 0: it has none. Return False if a limit leaves no room for the round."""
        call = self._calls.get(stream)
        if call is None:
            return not size
        if size - call.round > max(0, self._shares.room(call.caller)):
            self.refused += 1
            return False
        self._shares.add(call.caller, size - call.round)
        call.round = size
        return True

    def forget(self, stream: str) -> None:
        """Stop counting a call that another replica owns now. That replica counts it."""
        self._calls.remove(stream)

    def expire(self) -> None:
        """Stop counting what has expired."""
        self._calls.expire()

    def _change(self, call: _StoredCall, events: int) -> None:
        self._shares.add(call.caller, events - call.events)
        call.events = events

    def _release(self, call: _StoredCall) -> None:
        self._shares.add(call.caller, -(_CALL_BYTES + call.events + call.round))
