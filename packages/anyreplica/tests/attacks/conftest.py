"""A fixture that starts a replica for attacks."""

import contextlib
import json
import re
import resource
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from conftest import ROOT, Server, StartServer

MEMORY = 512 * 1024 * 1024
"""Memory limit in bytes that `stack.yml` gives a replica."""


@dataclass
class Good:
    """The results of the well-behaved client."""

    calls: int = 0
    longest: float = 0.0
    """Duration of the longest call, in seconds."""
    failures: list[str] = field(default_factory=list)


@dataclass
class Attacked:
    """A replica with the same memory limit as in a deployment."""

    server: Server
    good: Good = field(default_factory=Good)

    @property
    def rss(self) -> float:
        """Resident memory, in MB."""
        return self._status("VmRSS")

    @property
    def peak(self) -> float:
        """Maximum of the resident memory since the last `beside_good_client` began, in MB."""
        return self._status("VmHWM")

    @property
    def connections(self) -> int:
        """Number of open connections of the replica."""
        return self._connections("")

    @property
    def unread(self) -> int:
        """Number of connections with received bytes that the replica has not read (proc_net_tcp(5), rx_queue)."""
        return self._connections(r"\w+:(?!00000000)")

    def _connections(self, queues: str) -> int:
        table = Path("/proc/net/tcp").read_text()
        return len(re.findall(rf"\n *\d+: 0100007F:{self.server.port:04X} \S+ 01 {queues}", table))

    def connect(self, room: int = 0) -> socket.socket:
        """Return a new connection to the replica, with a receive buffer of `room` bytes (0: the system's default)."""
        connection = socket.socket()
        if room:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        connection.settimeout(60)
        connection.connect(("127.0.0.1", self.server.port))
        return connection

    @contextlib.contextmanager
    def connected(self, number: int, room: int = 0) -> Iterator[list[socket.socket]]:
        """Open connections to the replica until the block ends."""
        with contextlib.ExitStack() as stack:
            yield [stack.enter_context(self.connect(room)) for _ in range(number)]

    @contextlib.contextmanager
    def beside_good_client(self, longest: float = 1.0) -> Iterator[Good]:
        """Run a well-behaved client: no call may fail or take `longest` seconds, nor the memory reach its limit."""
        before = self.rss
        Path(f"/proc/{self.server.process.pid}/clear_refs").write_text("5")  # resets the peak, see proc(5)
        command = [sys.executable, "-m", "tests.attacks.good_client", "127.0.0.1", str(self.server.port)]
        with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
            try:
                assert client.stdout
                client.stdout.readline()  # the client has finished its first call
                yield self.good
            finally:
                said, _ = client.communicate("\n", timeout=90)
                self.good.__init__(**json.loads(said))  # type: ignore[misc]
                print(
                    f"Well-behaved client: {self.good.calls} calls, longest {self.good.longest * 1000:.0f} ms, "
                    f"{len(self.good.failures)} failed. Memory of the replica: {before:.0f} MB before, "
                    f"{self.rss:.0f} MB after, {self.peak:.0f} MB at most."
                )
        assert not self.good.failures
        assert self.good.calls > 0
        assert self.good.longest < longest
        assert self.peak * 1e6 < MEMORY

    def _status(self, name: str) -> float:
        text = Path(f"/proc/{self.server.process.pid}/status").read_text()
        found = re.search(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE)
        assert found, f"the replica has ended:\n{self.server.output[-2000:]}"
        return int(found[1]) * 1024 / 1e6


Attack = Callable[..., Attacked]


@pytest.fixture
def attack(start_server: StartServer) -> Attack:
    """Start a replica to attack; the keyword arguments are its settings.

    RLIMIT_DATA limits the replica's memory. It counts the memory that a process has allocated, which is a little more
    than the resident memory.
    """

    def start(**settings: str) -> Attacked:
        server = start_server(**{"LOG_LEVEL": "WARNING", **settings})
        resource.prlimit(server.process.pid, resource.RLIMIT_DATA, (MEMORY, MEMORY))
        return Attacked(server)

    return start
