"""Three replicas, and what happens to them."""

import os
import secrets
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.process import Process, free_port

REPLICAS = 3

DRAIN_SECONDS = 0.75
"""As many checks of the proxy's as the shipped settings have: 5 s, and one check a second."""

_COMPONENTS = "benchmarks.mode.pack"


class Fleet:
    """Replicas that may be killed or replaced; a new one has the port of the one before it.

    Args:
        module: what `python -m` runs.
        core: the CPU core that all of them share, once they are ready.
        other_core: on which some of them may start at first, since a start is all CPU time.
        folder: where their stderr is written.
        settings: beyond those that all fleets have.
    """

    def __init__(self, module: str, core: int, other_core: int, folder: Path, settings: dict[str, str]) -> None:
        self.ports = [free_port() for _ in range(REPLICAS)]
        self._module = module
        self._core = core
        self._other_core = other_core
        self._folder = folder
        self._settings = {
            "MCP_COMPONENTS": _COMPONENTS,
            "MCP_REPLICAS": str(REPLICAS),
            "REQUEST_STATE_KEYS": secrets.token_hex(32),
            "DRAIN_SECONDS": str(DRAIN_SECONDS),
            **settings,
        }
        self._replicas: list[Process] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """All of them are ready inside of the block.

        Raises:
            ProcessError: one does not start.
        """
        with ExitStack() as stack:
            for number in range(REPLICAS):
                core = self._other_core if number % 2 else self._core
                self._replicas.append(self._start(number, core))
                stack.callback(self.kill, number)
            for replica in self._replicas:
                replica.wait_ready()
                for thread in Path(f"/proc/{replica.pid}/task").iterdir():
                    os.sched_setaffinity(int(thread.name), {self._core})
            yield

    def cpu_seconds(self) -> float:
        """User and system time of all that run, since each was started."""
        return sum(replica.cpu_seconds() for replica in self._replicas)

    def kill(self, number: int) -> None:
        """Kill one, if it runs, as the kernel does when memory is short."""
        replica = self._replicas[number]
        if not replica.end:
            os.kill(replica.pid, signal.SIGKILL)
        replica.stop()

    def replace(self, number: int) -> None:
        """Replace one as an update does: stop it, wait for its end, start a new one, wait until it serves.

        Raises:
            ProcessError: the new one does not start.
        """
        self._replicas[number].stop()
        self._replicas[number] = self._start(number, self._core)
        self._replicas[number].wait_ready()

    def _start(self, number: int, core: int) -> Process:
        port = self.ports[number]
        own = {"MCP_PORT": str(port), "REPLICA_NAME": f"replica-{number}"}
        replica = Process(self._module, core=core, folder=self._folder, **self._settings, **own)
        replica.port = port
        return replica
