"""Fork replicas and their worker from a process that has already imported anyreplica.

The imports take nine tenths of the start of a replica. This way, one process does them for all replicas, and they share
its memory. It imports nothing of the user's server, so each replica still imports that itself.
"""

import gc
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkProcess, ForkServerProcess
from typing import Any

_LONGEST = 71
"""Maximum length of the folder's path in bytes. multiprocessing adds 32 bytes, and the path of a socket has at most 107
bytes on Linux and 103 on macOS."""

_CONTEXT = multiprocessing.get_context("forkserver")

_IMPORTS = (
    ["uvloop", "griffe", "anyreplica.process.start", "anyreplica.http.uvicorn.protocol", "anyreplica.app"]
    if sys.platform == "linux"
    else []
)
"""Modules to import before the fork. FastMCP uses griffe for the first docstring of a server. On macOS there are none,
because some libraries crash there after a fork."""

_BLOCKED = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
"""Signals that a terminal or systemd sends to all processes. The process that imports the modules must survive them."""

_HANDLED = {*_BLOCKED, signal.SIGQUIT, signal.SIGTTIN, signal.SIGTTOU, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH}
"""Signals for which a supervisor of uvicorn has handlers."""


def for_sockets() -> str:
    """Return the folder for temporary files (`TMPDIR`), or `/tmp` if its path is too long for the path of a socket."""
    folder = tempfile.gettempdir()
    return folder if len(os.fsencode(folder)) <= _LONGEST else "/tmp"  # noqa: S108


def _prepare() -> None:
    """Start the process that imports the modules, unless it already runs. Do not wait for the imports."""
    _CONTEXT.set_forkserver_preload(_IMPORTS)
    resource_tracker.ensure_running()  # its start would unblock SIGINT
    folder = tempfile.tempdir
    tempfile.tempdir = for_sockets()  # where multiprocessing makes the folder of its socket
    try:
        with _signals_blocked():
            forkserver.ensure_running()
    finally:
        tempfile.tempdir = folder


@contextmanager
def _signals_blocked() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Copy(ForkProcess):
    """A copy of this process. It begins with the signals of `_BLOCKED` blocked."""

    def start(self) -> None:
        with _signals_blocked():
            super().start()


def forked(target: Callable[..., None], *arguments: Any, name: str | None = None) -> ForkServerProcess:
    """Return a process that will call `target`. `start` starts it.

    SIGINT (Ctrl-C) is blocked in the process; `process_lifespan` unblocks it. SIGHUP (the terminal closes) stays
    blocked: the supervisor then sends SIGTERM. The process has the environment that this process has now.
    """
    _prepare()
    return _CONTEXT.Process(target=_begin, args=(dict(os.environ), target, *arguments), name=name)


def copied(target: Callable[..., None], *arguments: Any) -> ForkProcess | ForkServerProcess:
    """Return a process like that of `forked`, but forked from this process. It shares the memory of this process.

    Call this before the user's server is imported. On macOS, and if this process has threads, this function calls
    `forked` instead: if another thread holds a lock during the fork, the new process waits for that lock for ever.
    """
    if sys.platform != "linux" or threading.active_count() > 1:
        return forked(target, *arguments)
    return _Copy(target=_begin, args=(dict(os.environ), target, *arguments))


def serve(run: Callable[[], object]) -> None:
    """Call the function that runs a uvicorn server, and return when the server has stopped.

    uvicorn then raises the signal again that has stopped it. The default action of SIGTERM would end the process
    without the end that Python gives to the processes and the locks of `multiprocessing`. Afterwards the process ends
    by itself, so it ignores further signals, for example the SIGTERM for a replica that has refused to start.
    """
    with suppress(KeyboardInterrupt):
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            run()
        finally:
            for each in (signal.SIGTERM, signal.SIGINT):
                signal.signal(each, signal.SIG_IGN)


def _begin(environment: dict[str, str], target: Callable[..., None], *arguments: Any) -> None:
    # Hide the objects of the modules that were imported before the fork from the garbage collector. It would need 70 ms
    # to visit them. It would also write to them, and then this process would have its own copy of their memory.
    gc.freeze()
    os.environ.clear()
    os.environ.update(environment)
    for each in _HANDLED:
        signal.signal(each, signal.SIG_DFL)  # a copy has the handlers of its supervisor
    # multiprocessing chooses the start method for the new process, too, so that the user's code could not choose one.
    multiprocessing.set_start_method(None, force=True)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    target(*arguments)
