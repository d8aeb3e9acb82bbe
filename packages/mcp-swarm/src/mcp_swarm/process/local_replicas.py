"""Several replicas on one port of this machine, as `make up` runs them: real processes, no Docker."""

import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from uvicorn.supervisors import Multiprocess

from mcp_swarm.process.exit_codes import EXIT_REFUSED
from mcp_swarm.process.listening import refuse_taken
from mcp_swarm.process.replica import uvicorn_options
from mcp_swarm.settings import Settings
from mcp_swarm.settings.errors import StartupError

logger = logging.getLogger(__name__)

_READY_SECONDS = 30


class OwnSocket(socket.socket):
    """A bound TCP socket of which a child process gets its own, bound to the same address.

    uvicorn hands its sockets to every process it supervises. With one listening socket it would be chance who
    accepts; with sockets of their own and SO_REUSEPORT the kernel spreads new connections by hash. The supervisor's
    stays bound and never listens: it keeps the port while replicas come and go.
    """

    def __reduce__(self) -> tuple[Callable[[str, int], socket.socket], tuple[str, int]]:
        host, port = self.getsockname()[:2]
        return bind, (host, port)


def bind(host: str, port: int) -> OwnSocket:
    """A socket bound to `host:port`, which others of this user may bind too (SO_REUSEPORT)."""
    bound = OwnSocket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # or the connections of this run block the next one
    bound.bind((host, port))
    return bound


class Replicas(Multiprocess):
    """uvicorn's process supervisor, which says when its replicas are ready."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket], ready: Callable[[], None]) -> None:
        super().__init__(config, sockets)
        self.ready = ready

    def init_processes(self) -> None:
        with _later():
            super().init_processes()
        if all(process.wait_until_ready(_READY_SECONDS) for process in self.processes):
            self.ready()
        else:
            logger.warning("Not all replicas were ready after %d s; what they logged says why", _READY_SECONDS)

    def keep_subprocess_alive(self) -> None:
        # uvicorn would ask each for a sign of life, and wait half a minute if it ends or hangs meanwhile. One that
        # hangs is ended by its own watchdog.
        if all(replica.process.is_alive() for replica in self.processes):
            return
        before = list(self.processes)
        with _later():
            super().keep_subprocess_alive()
        for old, new in zip(before, self.processes, strict=False):
            if old is not new:
                number = old.process.name.rpartition("-")[2]
                logger.warning("Replica %s ended with exit code %s; started another", number, old.exitcode)

    def handle_hup(self) -> None:
        """The terminal was closed: nobody is there to press Ctrl-C."""
        self.handle_term()


@contextmanager
def _later() -> Iterator[None]:
    """Keep Ctrl-C waiting. A process started inside inherits that until it can handle it (`process_lifespan`)."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def run(settings: Settings, app: str, replicas: int, ready: Callable[[], None]) -> int:
    """Run replicas of `module:factory` until a signal ends them, and start one that dies again.

    `ready` is called once, when all of them serve. The exit code is 0, or that of a replica which refused to start.

    Raises:
        StartupError: the port is taken, the address can't be bound, or there is no port for all of them.
    """
    if settings.mcp_uds:
        raise StartupError(f"MCP_UDS={settings.mcp_uds}: serves one replica; unset it, or leave --replicas out")
    refuse_taken(settings)
    options: dict[str, Any] = {**uvicorn_options(settings, app), "workers": replicas}
    supervisor = Replicas(uvicorn.Config(**options), [bind(settings.mcp_host, settings.mcp_port)], ready)
    supervisor.run()
    refused = any(process.exitcode == EXIT_REFUSED for process in supervisor.processes)
    return EXIT_REFUSED if refused else 0
