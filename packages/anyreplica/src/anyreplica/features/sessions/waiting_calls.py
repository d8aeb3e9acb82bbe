"""The calls of a replica that wait for their clients: their number and their memory, by caller and in all."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from anyreplica.components.deadline import Pauses
from anyreplica.http.json_values import memory_of
from anyreplica.http.limits import InFlight, Memory, Shares
from anyreplica.http.refusal import UNAVAILABLE
from anyreplica.http.responses import encode
from anyreplica.mcp.call import ClientRequestError


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
