"""Inputs sent one after the other to a replica, and what came of them."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.fuzz.inputs import Pieces, feed
from tests.fuzz.replica import Replica
from tests.fuzz.wire import Asked, Connection, NoReply, Reply

BATCH = 500
"""Inputs between two looks at the replica."""

GROWTH_MB = 10
"""By which memory may grow in the second half of a run (see `Report.growth_mb`).

Measured: from -0.1 to 5.1 MB in runs of 10,000 inputs and of 100,000, with four seeds. A leak of 4 kB for each request
that reaches the endpoint shows with 15 MB in 10,000 inputs; one of 200 bytes takes a run of 100,000.
"""

_LEFT = 2
"""One of so many inputs that end in the middle of a request is left to the replica, which must lose patience."""

_PROBE = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@dataclass
class Found:
    """Something that must not be, and the first input that brought it about."""

    what: str
    data: bytes
    """Of the input, on one connection; with those before it, if it came of them all."""
    times: int = 1


@dataclass
class Report:
    """What came of a run."""

    inputs: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    """Of all replies."""
    silent: int = 0
    """Inputs without a reply, which had no whole request."""
    found: dict[str, Found] = field(default_factory=dict)
    """By their first lines."""
    slowest: float = 0.0
    """Seconds that a valid call took after a batch, at most."""
    memory: list[float] = field(default_factory=list)
    """MB after each batch."""
    files: tuple[int, int] = (0, 0)
    """Open before and after."""
    stopped: int = 0
    """The replica's exit code."""
    audit: str = ""
    """What is wrong with the audit log."""

    @property
    def failures(self) -> list[str]:
        """All that must not be, a line or more each."""
        lines = [f"{each.what} ({each.times} times)" for each in self.found.values()]
        if self.growth_mb > GROWTH_MB:
            lines.append(f"Memory grew by {self.growth_mb:.1f} MB in the second half, by more than {GROWTH_MB} MB.")
        if self.files[1] > self.files[0]:
            lines.append(f"{self.files[1]} files are open at the end, {self.files[0]} were at the beginning.")
        if self.stopped:
            lines.append(f"The replica ended with {self.stopped}.")
        if self.audit:
            lines.append(f"The audit log: {self.audit}")
        return lines

    @property
    def growth_mb(self) -> float:
        """By how much memory grew from the middle of the run to its end: the least of each third of that half."""
        half = self.memory[len(self.memory) // 2 :]
        third = max(1, len(half) // 3)
        return min(half[-third:]) - min(half[:third])


class Battery:
    """Sends inputs, and looks at each reply, at the log, and from time to time at the replica.

    Args:
        progress: called with the number of inputs so far.
    """

    def __init__(self, replica: Replica, progress: Callable[[int], None] = lambda _: None) -> None:
        self.report = Report()
        self._replica = replica
        self._progress = progress
        self._fuzzed, self._witness = Connection(replica.port), Connection(replica.port)
        self._batch: list[bytes] = []
        self._left: list[tuple[Connection, bytes]] = []
        self._left_before: list[tuple[Connection, bytes]] = []

    def run(self, inputs: int, seed: int) -> Report:
        """Send a number of inputs, or a few more: whole batches, each made from the seed and its own number."""
        before = self._replica.files()
        for number in range(-(-inputs // BATCH)):
            self._batch = []
            feed(self._send, self._replica.job, BATCH, seed * 1_000_003 + number)
            self._look()
            self._await_words()
        self._await_words()
        self._fuzzed.close()
        self._witness.close()
        self.report.files = before, self._replica.files()
        self._note_mistakes(b"".join(self._batch))  # which may be written a moment after the reply
        self.report.stopped, self.report.audit = self._replica.stop(), self._replica.audit()
        return self.report

    def _send(self, pieces: Pieces) -> None:
        data = b"".join(pieces)
        self.report.inputs += 1
        self._batch.append(data)
        try:
            replies = self._exchange(pieces, Asked(data))
        except NoReply as error:
            self._note(f"No reply: {error}", data)
            self._fuzzed.close()
            replies = []
        for reply in replies:
            self._judge(reply, data)
        self.report.silent += not replies
        self._note_mistakes(data)

    def _exchange(self, pieces: Pieces, asked: Asked) -> list[Reply]:
        self._fuzzed.send(*pieces)
        replies = self._fuzzed.read(asked)
        if not (asked.open or asked.upgraded) and replies:
            return replies
        # A reply on another connection means that the replica has seen all that was sent before.
        self._witness.send(_PROBE)
        self._witness.read(Asked(_PROBE))
        if asked.open and self._fuzzed.is_silent and self.report.inputs % _LEFT == 0:
            self._left.append((self._fuzzed, b"".join(pieces)))
            self._fuzzed = Connection(self._replica.port)
            return replies
        return replies + self._fuzzed.finish()

    def _await_words(self) -> None:
        """See that the replica has given up on the requests that it waited for in the batch before."""
        for connection, data in self._left_before:
            try:
                connection.await_word()
            except NoReply as error:
                self._note(f"Waited for: {error}", data)
                break  # the others have had the same time
        for connection, _ in self._left_before:
            connection.close()
        self._left, self._left_before = [], self._left

    def _judge(self, reply: Reply, data: bytes) -> None:
        self.report.statuses[reply.status] += 1
        busy = reply.status == 503 and b"\r\nretry-after: " in reply.head.lower()
        if reply.status >= 500 and not busy:
            self._note(f"HTTP {reply.status}: {reply.body[:200].decode(errors='replace')}", data)
        if b'"code":-32603' in reply.body:  # Internal error (JSON-RPC 2.0, section 5.1)
            self._note(f"-32603: {reply.body[:200].decode(errors='replace')}", data)
        for word in self._replica.tells(reply.head + reply.body):
            self._note(f"A caller is told {word}: {reply.body[:200].decode(errors='replace')}", data)

    def _look(self) -> None:
        try:
            self.report.slowest = max(self.report.slowest, self._replica.call())
        except Exception as error:  # noqa: BLE001  # whatever keeps a valid call from its answer
            self._note(f"A valid call: {type(error).__name__}: {error}", b"".join(self._batch))
        self.report.memory.append(self._replica.memory_mb)
        self._progress(self.report.inputs)

    def _note_mistakes(self, data: bytes) -> None:
        for record in self._replica.mistakes():
            self._note(f"The log: {record}", data)

    def _note(self, what: str, data: bytes) -> None:
        """Keep what was found, once for each kind: without ids and numbers, which differ each time."""
        kind = what.rpartition("…")[2] if what.startswith("The log") else what.partition(":")[0]
        if kind in self.report.found:
            self.report.found[kind].times += 1
        else:
            self.report.found[kind] = Found(what, data)
