"""The audit log of a replica. The event loop records the calls, and a thread writes the entries."""

import atexit
import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final, Literal

from anyreplica.features.audit.call import Noted
from anyreplica.features.audit.line import STATUS_UNAVAILABLE, Chain, Digests, Form, Shown
from anyreplica.features.audit.target import FileTarget, StdoutTarget
from anyreplica.settings.errors import StartupError

logger = logging.getLogger(__name__)

WRITE_SECONDS = 0.05
"""Maximum time that an entry waits while writes succeed, in seconds."""

MOST_LINES = 10_000
"""Maximum number of entries that wait while writes fail."""

MOST_BYTES = 64 * 1024 * 1024
"""Maximum size of the arguments of recorded calls that wait, in bytes."""

_BATCH = 64
"""Number of entries that the thread makes in one step. The event loop waits for the thread during a step."""

_ARGUMENTS_AT: Final = 5
"""The position of the arguments in a `Noted`."""

_RETRY_SECONDS = 0.25
_STOP_SECONDS = 5.0
_NEARLY = 0.9


class AuditLog:
    """The audit log: one entry for each recorded call, in a file or on `stdout`.

    `on_failure` says what happens to calls while the log cannot be written. With `drop` the replica serves them. When
    `MOST_LINES` entries wait, the log drops further entries, and a later entry counts them. With `refuse` the audit
    middleware refuses calls while `refusing` is true.

    `shown` is the allow-list of arguments for `Shown`, and `key` is the key for `Digests`.

    Raises:
        ValueError: the key or a pattern of the allow-list is not valid.
    """

    def __init__(
        self,
        target: str,
        replica: str,
        on_failure: Literal["drop", "refuse"] = "drop",
        shown: Sequence[str] = (),
        key: bytes | None = None,
    ) -> None:
        digests = Digests(key)
        self._target: StdoutTarget | FileTarget = StdoutTarget() if target == "stdout" else FileTarget(Path(target))
        self._keyed = digests.keyed
        self._form = Form(Shown(shown), digests)
        self._chain = Chain(replica, secrets.token_hex(8), digests)
        self.refuses = on_failure == "refuse"
        """Whether a failure of the log can make the replica refuse calls."""

        self._noted: deque[Noted] = deque()  # append and popleft of a deque are atomic
        self._ready: deque[str] = deque()
        """Unfinished entries. The write completes them, because a write to a new file adds an entry before them."""
        self._bytes_noted = 0
        self._bytes_made = 0
        # Only `note` increases these counters. The thread stores in `_reported` the numbers it has written.
        self._dropped = 0
        self._refused = 0
        self._reported = {"dropped": 0, "refused": 0}

        self._failing_since: float | None = None
        self._retry_at = 0.0
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._stop_by: float | None = None

    def note(self, noted: Noted) -> None:
        """Record a call for its entry, or only count the call as dropped or refused.

        This method never waits or raises. Any thread may call it.
        """
        if self.refuses and self._failing_since is not None and _is_refused(noted):
            self._refused += 1  # an entry for each refused call would leave no space for calls in flight
            return
        size = self._bytes_noted + len(noted[_ARGUMENTS_AT])
        waiting = self._noted
        if len(waiting) + len(self._ready) >= MOST_LINES or size - self._bytes_made > MOST_BYTES:
            self._dropped += 1
            return
        self._bytes_noted = size
        waiting.append(noted)
        if len(waiting) == _BATCH:
            self._bell.put(None)

    @property
    def refusing(self) -> bool:
        """Whether the replica must refuse calls with HTTP 503.

        With `refuse` that is the case from the first failed write until a write succeeds, and while too many entries
        wait. With `drop` it is never the case.
        """
        return self.refuses and (self._failing_since is not None or self._waiting > MOST_LINES * _NEARLY)

    @property
    def _waiting(self) -> int:
        return len(self._noted) + len(self._ready)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write entries while the context is open.

        The exit may block the event loop for `_STOP_SECONDS`. The replica serves no requests at that time.
        """
        self.start()
        try:
            yield
        finally:
            self.stop()

    def check(self) -> None:
        """Check that the log can be written.

        Raises:
            StartupError: the target cannot be opened.
        """
        try:
            self._target.open()
        except OSError as error:
            text = (
                f"AUDIT_LOG: {self._target.name} cannot be opened: {error.strerror}; set a target that can be written"
            )
            raise StartupError(text) from None
        self._target.close()

    def start(self) -> None:
        """Check the target and start the thread that writes.

        Raises:
            StartupError: the target cannot be opened.
        """
        self.check()
        self._thread = threading.Thread(target=self._work, name="audit", daemon=True)
        self._thread.start()
        atexit.register(self.stop)

    def stop(self, seconds: float = _STOP_SECONDS) -> None:
        """Write the remaining entries and stop the thread. After `seconds`, give up. Log the number of lost entries."""
        if self._thread is None:
            return
        atexit.unregister(self.stop)
        self._stop_by = time.monotonic() + seconds
        self._bell.put(None)
        self._thread.join(seconds + _RETRY_SECONDS)
        self._thread = None
        if lost := self._waiting + self._dropped - self._reported["dropped"]:
            logger.error("Audit log: %d entries lost, because %s cannot be written", lost, self._target.name)

    def _work(self) -> None:
        ended = False
        while True:
            stop_by = self._stop_by  # the steps below take the calls that were recorded before the stop
            self._make_entries()
            if (self._ready or not self._chain.seq) and time.monotonic() >= self._retry_at:
                self._write()
            failing = self._failing_since is not None
            if stop_by is not None and (time.monotonic() > stop_by or (ended and not self._waiting)):
                break
            if stop_by is not None and not self._waiting:
                self._ready.append(self._form.event("ended"))
                ended = True
            elif failing or (not self._ready and len(self._noted) < _BATCH):
                with suppress(Empty):
                    self._bell.get(timeout=WRITE_SECONDS)
        self._target.close()

    def _make_entries(self) -> None:
        """Make unfinished entries of the recorded calls."""
        waiting, ready, form = self._noted, self._ready, self._form
        for _ in range(min(_BATCH, len(waiting))):
            noted = waiting.popleft()
            self._bytes_made += len(noted[_ARGUMENTS_AT])
            try:
                ready.append(form.call(noted))
            except Exception:
                logger.exception("Audit log: no entry could be made for a call")
                ready.append(form.event("dropped", count=1))
        if self._failing_since is None and not self._noted:
            for event, count in (("dropped", self._dropped), ("refused", self._refused)):
                if count > self._reported[event]:
                    self._ready.append(self._form.event(event, count=count - self._reported[event]))
                    self._reported[event] = count

    def _write(self) -> None:
        """Write a batch of the ready entries. Entries that could not be written stay in `_ready`."""
        lines: list[bytes] = []
        opening = 0

        def make(last_hash: str | None) -> Sequence[bytes]:
            nonlocal opening
            bodies = list(islice(self._ready, _BATCH))
            if last_hash is not None:
                event = "continued" if self._chain.seq else "begun"
                bodies.insert(0, self._form.event(event, after=last_hash, keyed=self._keyed))
                opening = 1
            lines.extend(self._chain.link(bodies))
            return lines

        written, error = self._target.append(make)
        self._chain.advance(lines[:written])
        for _ in range(written - opening):
            self._ready.popleft()
        if error is not None:
            self._retry_at = time.monotonic() + _RETRY_SECONDS
            if self._failing_since is None:
                self._failing_since = time.monotonic()
                logger.warning(
                    "Audit log: cannot write to %s (%s); until a write succeeds, %s",
                    self._target.name,
                    error.strerror or error,
                    "calls are refused" if self.refuses else f"entries are dropped when {MOST_LINES} wait",
                )
        elif self._failing_since is not None:
            seconds = time.monotonic() - self._failing_since
            self._failing_since = None
            logger.warning("Audit log: writes to %s succeed again after %.1f s", self._target.name, seconds)


def _is_refused(noted: Noted) -> bool:
    *_, status, failed, _seconds = noted
    return status == STATUS_UNAVAILABLE and not failed
