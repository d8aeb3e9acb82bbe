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
        """Maximum of the resident memory since `forget_peak`, in MB."""
        return self._status("VmHWM")

    def forget_peak(self) -> None:
        """Reset the peak (proc(5), clear_refs)."""
        Path(f"/proc/{self.server.process.pid}/clear_refs").write_text("5")

    @property
    def connections(self) -> int:
        """Number of open connections of the replica."""
        return len(re.findall(rf"\n *\d+: 0100007F:{self.server.port:04X} \S+ 01 ", _tcp()))

    @property
    def unread(self) -> int:
        """Number of connections with received bytes that the replica has not read (proc_net_tcp(5), rx_queue)."""
        return len(re.findall(rf"\n *\d+: 0100007F:{self.server.port:04X} \S+ 01 \w+:(?!00000000)", _tcp()))

    def connect(self) -> socket.socket:
        """Return a new connection to the replica."""
        return socket.create_connection(("127.0.0.1", self.server.port), 60)

    @contextlib.contextmanager
    def beside_good_client(self, longest: float = 1.0) -> Iterator[Good]:
        """Run a well-behaved client during an attack and check its results and the replica's memory.

        The check fails if a call of this client failed or took too long, or if the replica used too much memory.

        Args:
            longest: maximum duration of a call, in seconds.
        """
        before = self.rss
        self.forget_peak()
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


def _tcp() -> str:
    return Path("/proc/net/tcp").read_text()


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
