"""Several processes on one port: local replicas (`make up`), or the processes of one replica (`WORKERS`)."""

import gc
import logging
import signal
import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from tempfile import TemporaryDirectory
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process

from anyreplica.process import replica
from anyreplica.process.forking import copied, for_sockets, forked, serve
from anyreplica.process.listening import Server, StoppableServer, hosts, new_socket, refuse_used_port
from anyreplica.process.local_redis import LocalRedis
from anyreplica.process.replica import uvicorn_options
from anyreplica.process.start import EXIT_REFUSED, one_printer, share_printer
from anyreplica.settings import CoreSettings
from anyreplica.settings.errors import StartupError

logger = logging.getLogger(__name__)


_READY_SECONDS = 180  # on a busy machine

_ANSWER_SECONDS = 1.0

_PAUSE_SECONDS = 0.1

_SHORT_SECONDS = 10.0
"""A process that ran for less than this time has failed at its start."""

_LONGEST_PAUSE = 30.0
"""Maximum time before a process starts that has failed several times in a row, in seconds."""


class LocalWorker:
    """A worker process. `restart_if_ended` replaces it, unless it refused to start.

    Args:
        settings: The settings of the worker.
        create: A function that creates the app of the worker. The worker process imports it by its name.
    """

    def __init__(self, settings: CoreSettings, create: Callable[[], ASGIApp]) -> None:
        options: dict[str, Any] = {**uvicorn_options(settings, ""), "factory": True, "app": create}
        self._config = uvicorn.Config(**options)
        self._process: ForkServerProcess | None = None
        self._ready: Connection | None = None

    @property
    def refused(self) -> bool:
        """Whether the worker refused to start."""
        return self._process is not None and self._process.exitcode == EXIT_REFUSED

    def start(self) -> None:
        """Start the process."""
        self._ready, ready = Pipe(duplex=False)
        process = forked(_serve_worker, self._config, ready, name="Process-worker")  # see replica_name
        process.start()
        self._process = process  # only now: a process that has not started can neither be terminated nor joined
        ready.close()  # so that the end of the process ends the pipe

    @property
    def is_starting(self) -> bool:
        """Whether the worker has started, and is neither ready nor at its end."""
        return self._ready is not None and not self._ready.poll()

    def restart_if_ended(self) -> None:
        """Start the worker again if its process has ended. Do nothing if the worker refused to start."""
        if self._process is not None and not self.refused and self._process.exitcode is not None:
            ended = self._process.exitcode
            self.start()
            logger.warning("The worker ended with exit code %s; started a new worker", ended)

    def terminate(self) -> None:
        """Ask the worker to drain and to end."""
        if self._process is not None:
            self._process.terminate()

    def join(self) -> None:
        """Wait for the end of the worker."""
        if self._process is not None:
            self._process.join()


class _WorkerServer(StoppableServer):
    """A server that tells the supervisor when it is ready."""

    def __init__(self, config: uvicorn.Config, ready: Connection) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready.send(True)


def _serve_worker(config: uvicorn.Config, ready: Connection) -> None:
    """Run the worker in its process. Without a socket nothing can connect to it."""
    serve(partial(_WorkerServer(config, ready).run, sockets=[]))


def _bind(host: str, port: int) -> socket.socket:
    """Return a socket bound to `host:port`. Other processes of the same user may bind it too (SO_REUSEPORT).

    If all processes shared one listening socket, chance would decide which process accepts a connection. With a socket
    per process, the kernel distributes new connections by a hash. The socket of the supervisor is bound and never
    listens. It reserves the port while processes start and stop.
    """
    bound = new_socket(host)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of this run must not block the next run
    bound.bind((host, port))
    return bound


class ReplicaProcess(Process):
    """A forked process that serves. uvicorn's own class would start a new Python, which imports everything again.

    Attributes:
        addresses: The addresses to listen on.
        printer: See `one_printer`.
        folder: For a process of one replica, the folder of its sockets (see `process.replica`). Empty for a replica.
        started: When it was made, by the monotonic clock.
        failures: How many processes in a row have failed at their start before this one.
        next_at: When a new process replaces this one, which has ended. None: it has not ended yet.
    """

    next_at: float | None = None

    def __init__(
        self, config: uvicorn.Config, addresses: list[tuple[str, int]], printer: Connection, folder: str
    ) -> None:
        self.config = config
        self.addresses = addresses
        self.printer = printer
        self.folder = folder
        self.started = time.monotonic()
        self.failures = 0
        self._server = None
        self.parent_conn, self.child_conn = Pipe()
        fork = copied if folder else forked
        self.process = fork(_serve, self)  # type: ignore[assignment]  # another kind of process

    @property
    def server(self) -> uvicorn.Server:
        """The server of the process. uvicorn's own class would serve with `uvicorn.Server`."""
        if self._server is None:
            self._server = Server(self.config)
        return self._server

    def terminate(self) -> None:
        """Send SIGTERM. For a moment, a replica that has ended by itself has neither a process nor an exit code."""
        with suppress(ProcessLookupError):
            super().terminate()


def _serve(process: ReplicaProcess) -> None:
    share_printer(process.printer)
    replica.folder = process.folder
    replica.beside_others = not process.folder
    process.config.configure_logging()
    serve(partial(process.target, [_bind(*address) for address in process.addresses]))


class Supervisor(Multiprocess):
    """A uvicorn process supervisor that calls `ready` when all its processes and the worker are ready.

    It also supervises the Redis of local replicas and their worker, if there are any.

    Args:
        sockets: Sockets that reserve the addresses.
        folder: See `ReplicaProcess`.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        sockets: list[socket.socket],
        ready: Callable[[], None],
        redis: LocalRedis | None = None,
        worker: LocalWorker | None = None,
        folder: str = "",
    ) -> None:
        super().__init__(config, sockets)
        self.ready = ready
        self.redis = redis
        self.worker = worker
        self.refused = False
        """Whether a process has refused to start before all were ready. It has printed the reason."""
        self._was_ready = False
        self._is_shown = False
        self._folder = folder
        self._kind = "process" if folder else "replica"
        self._printer = one_printer()

    def run(self) -> None:
        """Run until a signal arrives. After an exception, stop what runs: Python would wait for it, perhaps for ever.

        Raises:
            StartupError: A process cannot start.
        """
        try:
            super().run()
        except BaseException:
            self.should_exit.set()  # so that a signal stops the processes at once
            self.terminate_all()
            self.join_all()
            raise

    def init_processes(self) -> None:
        for _ in range(self.processes_num):
            self.processes.append(self._started())
        if self._all_ready():
            self._was_ready = True
        elif self._has_refused() or self.should_exit.is_set():
            self.should_exit.set()
            return
        else:
            logger.warning("Not every %s is ready yet: one has ended, or %g s are over", self._kind, _READY_SECONDS)
        if self.worker is not None:  # started last, because its start would delay the replicas, and jobs can wait
            self.worker.start()
        self._show()

    def _show(self) -> None:
        """Call `ready` once, when the processes and the worker are ready. So its text is the last on the screen."""
        busy = self.worker is not None and (self.worker.is_starting or self.worker.refused)
        if self._was_ready and not self._is_shown and not busy:
            self._is_shown = True
            self.ready()

    def _has_refused(self) -> bool:
        self.refused = any(each.exitcode == EXIT_REFUSED for each in self.processes)
        return self.refused

    def _started(self) -> ReplicaProcess:
        addresses = [each.getsockname()[:2] for each in self.sockets]
        process = ReplicaProcess(self.config, addresses, self._printer, self._folder)
        try:
            process.start()
        except OSError as error:  # for example, the machine or the container can have no more processes
            raise StartupError(f"A {self._kind} cannot start: {error.strerror or error}") from error
        return process

    def _all_ready(self) -> bool:
        """Wait until all processes are ready. Return False if one ended, if a signal stops them, or after 180 s."""
        until, waiting = time.monotonic() + _READY_SECONDS, list(self.processes)
        while waiting:
            if not all(each.process.is_alive() for each in waiting):
                return False
            for each in tuple(waiting):  # while a process imports its modules, it needs the whole time limit
                self.handle_signals()
                if self.should_exit.is_set() or time.monotonic() > until:
                    return False
                if each.is_ready(_ANSWER_SECONDS):
                    waiting.remove(each)
            time.sleep(_PAUSE_SECONDS if waiting else 0)
        return True

    def keep_subprocess_alive(self) -> None:
        if self.should_exit.is_set():
            return
        if self.redis is not None:
            self.redis.restart_if_ended()
        if self.worker is not None:
            self.worker.restart_if_ended()
            if self.worker.refused:
                self.should_exit.set()
        # uvicorn would ask each process for a sign of life, and wait 30 s for a process that ends or hangs. That is not
        # necessary: if a process hangs while it serves, its own watchdog ends it.
        for place, process in enumerate(self.processes):
            if process.process.is_alive():
                continue
            if not self._was_ready and self._has_refused():  # a new one would refuse, too
                self.should_exit.set()
                return
            assert isinstance(process, ReplicaProcess)  # noqa: S101  # uvicorn's list is one of its own class
            self._replace(place, process)
        if not self._was_ready:
            self._was_ready = all(each.is_ready(_ANSWER_SECONDS) for each in self.processes)
        self._show()

    def _replace(self, place: int, ended: ReplicaProcess) -> None:
        """Start a new process for one that has ended: at once, or after a pause if several have failed in a row."""
        now, pause = time.monotonic(), 0.0
        first = ended.next_at is None
        if ended.next_at is None:
            ended.failures = ended.failures + 1 if now - ended.started < _SHORT_SECONDS else 0
            if ended.failures > 1:
                pause = min(_LONGEST_PAUSE, 2.0 ** (ended.failures - 2))
            ended.next_at = now + pause
        if now >= ended.next_at:
            self.processes[place] = new = self._started()
            new.failures = ended.failures
        if first:  # the log says "started" when it is true
            how = f"a new one starts in {pause:g} s" if pause else "started a new one"
            name = f"{self._kind.capitalize()} {ended.process.name.rpartition('-')[2]}"
            logger.warning("%s ended with exit code %s; %s", name, _described(ended.exitcode), how)

    def terminate_all(self) -> None:
        super().terminate_all()
        if self.worker is not None:
            self.worker.terminate()

    def join_all(self) -> None:
        """Wait for the end of all processes. A second SIGTERM goes to them, too, so that they stop at once."""
        while any(each.process.is_alive() for each in self.processes):
            self.handle_signals()
            time.sleep(_PAUSE_SECONDS)
        if self.worker is not None:
            self.worker.join()

    def handle_term(self) -> None:
        """Stop. The second time, stop at once."""
        if self.should_exit.is_set():
            self.terminate_all()
        super().handle_term()

    handle_int = handle_term
    handle_hup = handle_term  # the terminal closes, so nobody can press Ctrl-C any more

    def handle_ttin(self) -> None:
        """Keep the number of processes. uvicorn would add one, and the settings of the others would be wrong."""

    handle_ttou = handle_ttin


def _described(code: int | None) -> str:
    """Return an exit code, with the name of the signal that has ended the process."""
    try:
        return f"{code} ({signal.Signals(-(code or 0)).name})"
    except ValueError:
        return str(code)


def run(
    settings: CoreSettings,
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
    config = _config(settings, app, replicas, "only one replica can use it; unset it, or remove --replicas")
    worker = LocalWorker(settings, create_worker) if create_worker is not None else None
    with redis or nullcontext() as server:
        supervisor = Supervisor(config, _reserved(settings), ready, server, worker)
        supervisor.run()
    return EXIT_REFUSED if supervisor.refused or (worker is not None and worker.refused) else 0


def run_processes(settings: CoreSettings, app: str, ready: Callable[[], None]) -> int:
    """Run the processes of one replica (`WORKERS`) like `run`, until a signal stops them.

    This process must not have imported the user's server, because the new processes are copies of it: see `copied`.
    """
    config = _config(settings, app, settings.workers, "only one process can use it; unset it, or set WORKERS=1")
    gc.collect()
    gc.freeze()  # a collection in a process would copy the memory of all objects that it visits
    with TemporaryDirectory(prefix="anyreplica-", dir=for_sockets()) as folder:
        supervisor = Supervisor(config, _reserved(settings), ready, folder=folder)
        supervisor.run()
    return EXIT_REFUSED if supervisor.refused else 0


def _config(settings: CoreSettings, app: str, processes: int, why_no_uds: str) -> uvicorn.Config:
    """Check the address, and return the configuration of all processes."""
    if settings.mcp_uds:
        raise StartupError(f"MCP_UDS={settings.mcp_uds}: {why_no_uds}")
    refuse_used_port(settings)
    options: dict[str, Any] = {**uvicorn_options(settings, app), "workers": processes}
    return uvicorn.Config(**options)


def _reserved(settings: CoreSettings) -> list[socket.socket]:
    return [_bind(host, settings.mcp_port) for host in hosts(settings)]
