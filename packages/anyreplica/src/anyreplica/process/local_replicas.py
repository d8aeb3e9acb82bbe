"""Several replicas on one port of this machine, as real processes without Docker. `make up` uses this module."""

import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from multiprocessing import resource_tracker
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.supervisors import Multiprocess

from anyreplica.process.exit_codes import EXIT_REFUSED
from anyreplica.process.listening import refuse_taken
from anyreplica.process.local_redis import LocalRedis
from anyreplica.process.local_worker import LocalWorker
from anyreplica.process.replica import uvicorn_options
from anyreplica.settings import Settings
from anyreplica.settings.errors import StartupError

logger = logging.getLogger(__name__)

_READY_SECONDS = 180  # on a busy machine


class OwnSocket(socket.socket):
    """A bound TCP socket that each child process replaces with its own socket, bound to the same address.

    uvicorn passes its sockets to every process that it supervises. If all processes shared one listening socket, chance
    would decide which process accepts a connection. With a socket per process and SO_REUSEPORT, the kernel distributes
    new connections by a hash. The socket of the supervisor is bound and never listens. It reserves the port while
    replicas start and stop.
    """

    def __reduce__(self) -> tuple[Callable[[str, int], socket.socket], tuple[str, int]]:
        host, port = self.getsockname()[:2]
        return bind, (host, port)


def bind(host: str, port: int) -> OwnSocket:
    """Return a socket bound to `host:port`. Other processes of the same user may bind it too (SO_REUSEPORT)."""
    bound = OwnSocket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of this run must not block the next run
    bound.bind((host, port))
    return bound


class Replicas(Multiprocess):
    """A uvicorn process supervisor that calls `ready` when all its replicas are ready.

    It also supervises the Redis of the replicas and their worker, if there are any.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        sockets: list[socket.socket],
        ready: Callable[[], None],
        redis: LocalRedis | None,
        worker: LocalWorker | None,
    ) -> None:
        super().__init__(config, sockets)
        self.ready = ready
        self.redis = redis
        self.worker = worker

    def init_processes(self) -> None:
        with _later():
            super().init_processes()
        if all(process.wait_until_ready(_READY_SECONDS) for process in self.processes):
            self.ready()
        else:
            logger.warning("Not all replicas are ready; their log says why")
        if self.worker is not None:  # started last, because its start would delay the replicas, and jobs can wait
            with _later():
                self.worker.start()

    def keep_subprocess_alive(self) -> None:
        if self.should_exit.is_set():
            return
        if self.redis is not None:
            self.redis.restart_if_ended()
        if self.worker is not None:
            with _later():
                self.worker.restart_if_ended()
            if self.worker.refused:
                self.should_exit.set()
        # uvicorn would ask each replica for a sign of life, and wait 30 s for a replica that ends or hangs. That is not
        # necessary: if a replica hangs, its own watchdog ends it.
        if all(replica.process.is_alive() for replica in self.processes):
            return
        before = list(self.processes)
        with _later():
            super().keep_subprocess_alive()
        for old, new in zip(before, self.processes, strict=False):
            if old is not new:
                number = old.process.name.rpartition("-")[2]
                logger.warning("Replica %s ended with exit code %s; started a new replica", number, old.exitcode)

    def terminate_all(self) -> None:
        super().terminate_all()
        if self.worker is not None:
            self.worker.terminate()

    def join_all(self) -> None:
        super().join_all()
        if self.worker is not None:
            self.worker.join()

    def handle_hup(self) -> None:
        """Stop when the terminal closes, because nobody can press Ctrl-C then."""
        self.handle_term()


@contextmanager
def _later() -> Iterator[None]:
    """Block SIGINT (Ctrl-C) while replicas start. In each replica, `process_lifespan` unblocks the signal."""
    resource_tracker.ensure_running()  # Python starts it with the first replica, and its start unblocks SIGINT
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def run(
    settings: Settings,
    app: str,
    replicas: int,
    ready: Callable[[], None],
    redis: AbstractContextManager[LocalRedis | None] | None = None,
    create_worker: Callable[[], ASGIApp] | None = None,
) -> int:
    """Run replicas until a signal stops them. Restart a replica that ends.

    Args:
        settings: The settings of the replicas.
        app: The app factory, as `module:factory`.
        replicas: Number of replicas.
        ready: A function that is called once, when all replicas are ready.
        redis: The Redis of the replicas. It runs inside the block of this context manager.
        create_worker: A function that creates the app of a worker for the replicas' jobs. None: no worker.

    Returns:
        The exit code: 0, or `EXIT_REFUSED` if a replica refused to start.

    Raises:
        StartupError: The port is in use, the address cannot be bound, or `MCP_UDS` is set.
    """
    if settings.mcp_uds:
        raise StartupError(f"MCP_UDS={settings.mcp_uds}: only one replica can use it; unset it, or remove --replicas")
    refuse_taken(settings)
    options: dict[str, Any] = {**uvicorn_options(settings, app), "workers": replicas}
    worker = LocalWorker(settings, create_worker) if create_worker is not None else None
    with redis or nullcontext() as server:
        sockets: list[socket.socket] = [bind(settings.mcp_host, settings.mcp_port)]
        supervisor = Replicas(uvicorn.Config(**options), sockets, ready, server, worker)
        supervisor.run()
    refused = any(process.exitcode == EXIT_REFUSED for process in supervisor.processes)
    return EXIT_REFUSED if refused or (worker is not None and worker.refused) else 0
