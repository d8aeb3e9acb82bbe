"""Send inputs to a replica one after the other, and collect the results."""

from collections import Counter
from dataclasses import dataclass, field

from tests.fuzz.connection import Asked, Connection, NoReply, Reply
from tests.fuzz.inputs import Pieces, feed
from tests.fuzz.replica import Replica

BATCH = 500
"""Number of inputs between two checks of the replica."""

GROWTH_MB = 10
"""Maximum growth of memory in the second half of a run, in MB. Measured: from -0.1 to 5.1 MB, with four seeds.

A leak of 4 kB for each request shows as 15 MB in 10,000 inputs, one of 200 bytes only in 100,000 inputs.
"""

_LEFT = 2
"""One in this many unfinished requests leaves its connection open, so that the replica's time limit must end it."""

_PROBE = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@dataclass
class Found:
    """A fault, and the first input that caused it."""

    what: str
    data: bytes
    """Bytes of the input on one connection, or of the whole batch if the batch caused the fault."""
    times: int = 1


@dataclass
class Report:
    """The results of a run."""

    inputs: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    """Number of replies for each status."""
    found: dict[str, Found] = field(default_factory=dict)
    """Faults by their kind."""
    memory: list[float] = field(default_factory=list)
    """Memory after each batch, in MB."""
    files: tuple[int, int] = (0, 0)
    """Number of open files before and after the run."""
    stopped: int = 0
    """The replica's exit code."""
    audit: str = ""
    """The fault of the audit log; empty if the log is intact."""

    @property
    def growth_mb(self) -> float:
        """Growth of memory in the second half, from the minimum of its first to that of its last third, in MB."""
        half = self.memory[len(self.memory) // 2 :]
        third = max(1, len(half) // 3)
        return min(half[-third:]) - min(half[:third])


class Battery:
    """A sender of inputs that checks each reply and the log, and the replica after each batch."""

    def __init__(self, replica: Replica) -> None:
        self.report = Report()
        self._replica = replica
        self._fuzzed, self._witness = Connection(replica.port), Connection(replica.port)
        self._batch: list[bytes] = []
        self._left: list[tuple[Connection, bytes]] = []
        self._left_before: list[tuple[Connection, bytes]] = []

    def run(self, inputs: int, seed: int) -> Report:
        """Send at least `inputs` inputs in whole batches, which the seed determines."""
        before = self._replica.files()
        for number in range(-(-inputs // BATCH)):
            self._batch = []
            feed(self._send, self._replica.job, BATCH, seed * 1_000_003 + number)
            self._look()
            self._check_left_open()
        self._check_left_open()
        self._fuzzed.close()
        self._witness.close()
        self.report.files = before, self._replica.files()
        self._note_mistakes(b"".join(self._batch))  # a mistake may reach the log a moment after the reply
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
        self._note_mistakes(data)

    def _exchange(self, pieces: Pieces, asked: Asked) -> list[Reply]:
        self._fuzzed.send(*pieces)
        replies = self._fuzzed.read(asked)
        if not (asked.open or asked.upgraded) and replies:
            return replies
        # A reply on another connection shows that the replica has read everything that was sent before.
        self._witness.send(_PROBE)
        self._witness.read(Asked(_PROBE))
        if asked.open and self._fuzzed.is_silent and self.report.inputs % _LEFT == 0:
            self._left.append((self._fuzzed, b"".join(pieces)))
            self._fuzzed = Connection(self._replica.port)
            return replies
        return replies + self._fuzzed.finish()

    def _check_left_open(self) -> None:
        """Check that the replica has given up on the unfinished requests of the previous batch."""
        for connection, data in self._left_before:
            try:
                connection.wait_for_reply_or_end()
            except NoReply as error:
                self._note(f"No reply to an unfinished request: {error}", data)
                break  # the other connections have had the same time to end
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
        for word in self._replica.forbidden(reply.head + reply.body):
            self._note(f"A reply contains {word}: {reply.body[:200].decode(errors='replace')}", data)

    def _look(self) -> None:
        try:
            self._replica.call()
        except Exception as error:  # noqa: BLE001  # any exception means that a valid call failed
            self._note(f"A valid call failed: {type(error).__name__}: {error}", b"".join(self._batch))
        self.report.memory.append(self._replica.memory_mb)

    def _note_mistakes(self, data: bytes) -> None:
        for record in self._replica.mistakes():
            self._note(f"The log: {record}", data)

    def _note(self, what: str, data: bytes) -> None:
        """Store the first fault of each kind and count the others. The kind is the text without its details."""
        kind = what.rpartition("…")[2] if what.startswith("The log") else what.partition(":")[0]
        if kind in self.report.found:
            self.report.found[kind].times += 1
        else:
            self.report.found[kind] = Found(what, data)
