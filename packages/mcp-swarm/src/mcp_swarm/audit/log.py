"""The audit log of a replica: noted on the event loop, written by a thread."""

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
from typing import Literal

from mcp_swarm.audit.call import Noted
from mcp_swarm.audit.chain import Chain, Digests
from mcp_swarm.audit.line import STATUS_UNAVAILABLE, Form
from mcp_swarm.audit.shown import Shown
from mcp_swarm.audit.target import FileTarget, StdoutTarget
from mcp_swarm.settings.errors import StartupError

logger = logging.getLogger(__name__)

WRITE_SECONDS = 0.05
"""How long a line waits at most while all goes well."""

MOST_LINES = 10_000
"""How many lines wait at most while nothing can be written."""

MOST_BYTES = 64 * 1024 * 1024
"""Of arguments that wait to become lines."""

_BATCH = 64
"""Lines that are made in one go: the thread that makes them holds up the event loop for that long."""

_RETRY_SECONDS = 0.25
_STOP_SECONDS = 5.0
_NEARLY = 0.9


class AuditLog:
    """A line for each call that is noted, in a file or on `stdout`.

    `on_failure` says what happens to calls while nothing can be written. `drop`: they go on; when `MOST_LINES` wait,
    more are dropped, and a line counts them later. `refuse`: `refusing` tells the guard to refuse them. `shown` is the
    allow-list of arguments, as `Shown` takes it; `key` as `Digests` does.

    Raises:
        ValueError: the key, or a pattern of the allow-list, isn't good.
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
        self._refuses = on_failure == "refuse"

        self._noted: deque[Noted] = deque()  # whose append and popleft are atomic
        self._ready: deque[bytes] = deque()
        """Lines but for the chain, which depends on whether they come to stand in a new file."""
        self._bytes_noted = 0
        self._bytes_taken = 0
        # Each of these only grows, and only one side counts it; the other remembers how far it has told of it.
        self._dropped = 0
        self._refused = 0
        self._told = {"dropped": 0, "refused": 0}

        self._failing_since: float | None = None
        self._retry_at = 0.0
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._stop_by: float | None = None

    def note(self, noted: Noted) -> None:
        """Have a line written of a call. It never waits and never raises; from any thread."""
        refused = noted.status == STATUS_UNAVAILABLE and not noted.failed
        if refused and self._refuses and self._failing_since is not None:
            self._refused += 1  # or the refusals would take the places of calls that are under way
            return
        size = self._bytes_noted + len(noted.arguments)
        if self._waiting >= MOST_LINES or size - self._bytes_taken > MOST_BYTES:
            self._dropped += 1
            return
        self._bytes_noted = size
        self._noted.append(noted)
        if len(self._noted) == _BATCH:
            self._bell.put(None)

    @property
    def refusing(self) -> bool:
        """Whether calls are to be refused, with 503: from the first write that fails until one succeeds."""
        return self._refuses and (self._failing_since is not None or self._waiting > MOST_LINES * _NEARLY)

    @property
    def _waiting(self) -> int:
        return len(self._noted) + len(self._ready)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write meanwhile. At the end the event loop may stand still for `_STOP_SECONDS`: nothing is served then."""
        self.start()
        try:
            yield
        finally:
            self.stop()

    def check(self) -> None:
        """Look whether it can be written.

        Raises:
            StartupError: the target can't be opened.
        """
        try:
            self._target.open()
        except OSError as error:
            raise StartupError(f"{self._target.name}: the audit log can't be opened: {error.strerror}") from None
        self._target.close()

    def start(self) -> None:
        """Begin to write, if `check` finds that it can be."""
        self.check()
        self._thread = threading.Thread(target=self._work, name="audit", daemon=True)
        self._thread.start()
        atexit.register(self.stop)

    def stop(self, seconds: float = _STOP_SECONDS) -> None:
        """Write what waits, for so long at most, and end; what can't be written by then is lost, and logged as such."""
        if self._thread is None:
            return
        atexit.unregister(self.stop)
        self._stop_by = time.monotonic() + seconds
        self._bell.put(None)
        self._thread.join(seconds + _RETRY_SECONDS)
        self._thread = None
        if lost := self._waiting + self._dropped - self._told["dropped"]:
            logger.error("%d lines of the audit log are lost: %s can't be written to", lost, self._target.name)

    def _work(self) -> None:
        ended = False
        while True:
            stop_by = self._stop_by  # what was noted before it was set is taken below
            self._take()
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

    def _take(self) -> None:
        """Make lines of what was noted."""
        for _ in range(min(_BATCH, len(self._noted))):
            noted = self._noted.popleft()
            self._bytes_taken += len(noted.arguments)
            try:
                self._ready.append(self._form.call(noted))
            except Exception:
                logger.exception("A call can't be written to the audit log")
                self._ready.append(self._form.event("dropped", count=1))
        if self._failing_since is None and not self._noted:
            for event, count in (("dropped", self._dropped), ("refused", self._refused)):
                if count > self._told[event]:
                    self._ready.append(self._form.event(event, count=count - self._told[event]))
                    self._told[event] = count

    def _write(self) -> None:
        """Write a batch of what is ready; what isn't written stays there."""
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
                    "The audit log can't be written to %s (%s); meanwhile calls are %s",
                    self._target.name,
                    error.strerror or error,
                    "refused" if self._refuses else f"served, and dropped from it when {MOST_LINES} wait",
                )
        elif self._failing_since is not None:
            seconds = time.monotonic() - self._failing_since
            self._failing_since = None
            logger.warning("The audit log is written to %s again, after %.1f s", self._target.name, seconds)
