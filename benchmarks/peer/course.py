"""One server in one family through all rounds."""

import socket
import time
from collections.abc import Callable

import orjson

from benchmarks.expectation import fault
from benchmarks.interruption import run
from benchmarks.load import Load, LoadError
from benchmarks.peer.servers import Server
from benchmarks.process import Process, ProcessError
from benchmarks.reply import UnreadableReply, parse
from benchmarks.sample import Sample
from benchmarks.scenarios import MESSAGE, Scenario
from benchmarks.wire import Family, encode

MANY, ONE = 32, 1
"""The loads: as many connections as keep a server busy, and a single caller."""

_WARM_UP = 0.3
_PATIENCE = 10.0


class Course:
    """A server's process, the family of the calls, and what was measured so far."""

    def __init__(self, server: Server, family: Family, process: Process, seconds: float) -> None:
        self.server = server
        self.family = family
        self.failure = ""
        """Why it can't be measured further."""
        self.samples: dict[int, list[Sample]] = {MANY: [], ONE: []}
        """One a round, by the number of connections."""
        self.ratios: list[float] = []
        """Of the CPU time of a call to the floor's right before, 32 in flight; one a round."""
        self.rss: list[float] = []
        """Resident memory in MB after each round."""
        self._process = process
        self._seconds = seconds
        self._scenario = echo_in(family)

    def begin(self, warm_up: float) -> None:
        """Look closely at one reply, and let the server run for so many seconds: Node compiles what is called often."""

        def attempt() -> None:
            look(self._process.port, self._scenario)
            run(self._warm(warm_up))

        self._unless_failed(attempt)

    def reference(self) -> Sample:
        """Measure 32 in flight, for another to be compared with.

        Raises:
            ProcessError: it failed.
        """
        try:
            return run(self._sample(MANY))
        except (LoadError, OSError) as error:
            raise ProcessError(f"{self.server.title}: {self._process.end or error}") from error

    def measure(self, reference: Sample | None) -> None:
        """Measure both loads for one round.

        Args:
            reference: the floor's, right before; None for the floor itself.
        """

        def attempt() -> None:
            many, one = run(self._sample(MANY)), run(self._sample(ONE))
            self.samples[MANY].append(many)
            self.samples[ONE].append(one)
            self.ratios.append(many.cpu_us / (reference or many).cpu_us)
            self.rss.append(self._process.rss_mb())

        self._unless_failed(attempt)

    async def _warm(self, seconds: float) -> None:
        async with Load(self._process.port, self._scenario, MANY) as load:
            await load.run(seconds)

    async def _sample(self, connections: int) -> Sample:
        self._process.empty_log()
        async with Load(self._process.port, self._scenario, connections) as load:
            await load.run(min(_WARM_UP, self._seconds))
            began = time.perf_counter()
            await load.run_replies(connections, within=_PATIENCE)
            # On a machine that is busy otherwise, long enough for some replies on each connection.
            seconds = max(self._seconds, 4 * (time.perf_counter() - began))
            sample = await load.measure(seconds, self._process.cpu_seconds)
        if sample.errors:
            raise LoadError(f"{sample.errors} replies were wrong; the first: {sample.first_error}")
        return sample

    def _unless_failed(self, attempt: Callable[[], None]) -> None:
        if self.failure:
            return
        try:
            attempt()
        except (LoadError, ProcessError, OSError) as error:
            self.failure = f"{self.family.value}: {self._process.end or error}"


def echo_in(family: Family) -> Scenario:
    """The call of the echo, and what each reply to it must hold: the SDKs differ in what else they say."""
    result = {"content": [{"type": "text", "text": MESSAGE}]}
    kind = {"resultType": "complete"} if family is Family.STATELESS else {}
    return Scenario(
        name=f"echo-{family.value}",
        title=f"echo, {family.value}",
        pack="",
        request=encode("tools/call", {"name": "echo", "arguments": {"message": MESSAGE}}, family=family),
        expected={"jsonrpc": "2.0", "id": 1, "result": result | kind},
    )


def look(port: int, scenario: Scenario) -> None:
    """Look at a single reply: one JSON document, of a call that went well, and without a session.

    Raises:
        LoadError: it is another.
        OSError: there is none.
    """
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE) as connection:
        connection.sendall(scenario.request)
        try:
            while (reply := parse(received)) is None:
                if not (more := connection.recv(65_536)):
                    raise LoadError("the server closed the connection instead of a reply")
                received += more
        except UnreadableReply as error:
            raise LoadError(str(error)) from error
    if wrong := fault(scenario.expected, reply.status, reply.body):
        raise LoadError(wrong)
    head = received.partition(b"\r\n\r\n")[0].lower()
    if b"\r\ncontent-type: application/json" not in head:
        raise LoadError("wrong reply: not application/json")
    if b"\r\nmcp-session-id:" in head:
        raise LoadError("wrong reply: it begins a session")
    if orjson.loads(reply.body)["result"].get("isError"):
        raise LoadError("wrong reply: isError")
