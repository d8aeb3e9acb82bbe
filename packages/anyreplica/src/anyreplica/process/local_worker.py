"""The worker of local replicas: a process beside them that runs their jobs. It has no port."""

import logging
from collections.abc import Callable
from functools import partial
from multiprocessing.context import ForkServerProcess
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from anyreplica.process.exit_codes import EXIT_REFUSED
from anyreplica.process.forking import forked, serve
from anyreplica.process.replica import uvicorn_options
from anyreplica.settings import Settings

logger = logging.getLogger(__name__)


class LocalWorker:
    """A worker process. `restart_if_ended` replaces it, unless it refused to start.

    Args:
        settings: The settings of the worker.
        create: A function that creates the app of the worker. The worker process imports it by its name.
    """

    def __init__(self, settings: Settings, create: Callable[[], ASGIApp]) -> None:
        options: dict[str, Any] = {**uvicorn_options(settings, ""), "factory": True, "app": create}
        self._config = uvicorn.Config(**options)
        self._process: ForkServerProcess | None = None

    @property
    def refused(self) -> bool:
        """Whether the worker refused to start."""
        return self._process is not None and self._process.exitcode == EXIT_REFUSED

    def start(self) -> None:
        """Start the process."""
        self._process = forked(_serve, self._config, name="Process-worker")  # see replica_name
        self._process.start()

    def restart_if_ended(self) -> None:
        """Start a new process if the present one has ended, unless it refused to start."""
        if self._process is not None and not self.refused and self._process.exitcode is not None:
            logger.warning("The worker ended with exit code %s; started a new worker", self._process.exitcode)
            self.start()

    def terminate(self) -> None:
        """Ask the worker to drain and to end."""
        if self._process is not None:
            self._process.terminate()

    def join(self) -> None:
        """Wait for the end of the worker."""
        if self._process is not None:
            self._process.join()


def _serve(config: uvicorn.Config) -> None:
    """Run the worker in its process. Without a socket nothing can connect to it."""
    serve(partial(uvicorn.Server(config).run, sockets=[]))
