"""Three replicas that can be killed and replaced."""

import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.process import Process, free_port

REPLICAS = 3
DRAIN_SECONDS = 0.75
"""Time for five health checks of the proxy. `stack.yml` and the proxy's file have this ratio, too: 5 s and 1 s."""


class Fleet:
    """Replicas that share a core. A new replica gets the port of the replica that it replaces.

    Args:
        core: the core.
        folder: folder for the output of the replicas.
        module: the module that serves, and its arguments.
    """

    def __init__(self, core: int, folder: Path, *module: str) -> None:
        self.ports = [free_port() for _ in range(REPLICAS)]
        self._core = core
        self._folder = folder
        self._settings = {
            "MCP_COMPONENTS": "benchmarks.packs.echo,benchmarks.packs.slow",
            "MCP_REPLICAS": str(REPLICAS),
            "REQUEST_STATE_KEYS": secrets.token_hex(32),
            "DRAIN_SECONDS": str(DRAIN_SECONDS),
        }
        self._module = module
        self._replicas: list[Process] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start all replicas, and stop them at the end of the block.

        Raises:
            ProcessError: A replica does not start.
        """
        with ExitStack() as stack:
            for number in range(REPLICAS):
                self._replicas.append(self._start(number, None))  # On any core, because a start takes a second.
                stack.callback(self.kill, number)
            for replica in self._replicas:
                replica.wait_ready()
                replica.pin(self._core)
            yield

    def cpu_seconds(self) -> float:
        """Return the user and system time of the replicas."""
        return sum(replica.cpu_seconds() for replica in self._replicas)

    def kill(self, number: int) -> None:
        """Kill a replica with SIGKILL, as the kernel does when memory is short."""
        self._replicas[number].kill()

    def replace(self, number: int) -> None:
        """Replace a replica as an update does: stop it, wait for its end, start a new one, wait until it serves."""
        self._replicas[number].stop()
        self._replicas[number] = self._start(number, self._core)
        self._replicas[number].wait_ready()

    def _start(self, number: int, core: int | None) -> Process:
        settings = {**self._settings, "REPLICA_NAME": f"replica-{number}", "MCP_PORT": str(self.ports[number])}
        return Process(*self._module, core=core, folder=self._folder, **settings)
