"""The start of a process: it checks the versions of libraries, and prints one line if the process cannot start.

The exit code of a refused start is here, too.
"""

import asyncio
import logging
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, requires, version
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from packaging.requirements import Requirement
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anyreplica._version import __version__
from anyreplica.settings.errors import StartupError

EXIT_REFUSED = 3
"""A replica refused to start. The code is uvicorn's STARTUP_FAILURE: uvicorn does not restart such a replica."""

_byte: Connection | None = None


def one_printer() -> Connection:
    """Return the end of a pipe with one byte. The process that reads the byte may print why it cannot start.

    Replicas of one supervisor usually fail for the same reason, and the operator needs to read it only once.
    """
    byte, writer = Pipe(duplex=False)
    with writer:
        os.write(writer.fileno(), b"1")
    return byte


def share_printer(byte: Connection) -> None:
    """Let this process print why it cannot start only if no other process has read the byte of `one_printer`."""
    global _byte  # noqa: PLW0603  # the app prints the reason, and it knows no supervisor
    _byte = byte


def print_reason(error: BaseException) -> None:
    """Print why this process cannot start: one line, and with LOG_LEVEL=DEBUG the traceback."""
    if _byte is None or os.read(_byte.fileno(), 1):
        print(_reason(error), file=sys.stderr)  # noqa: T201


@contextmanager
def refusing() -> Iterator[None]:
    """Turn any exception in the block into a `StartupError` with a text for the operator."""
    try:
        yield
    except StartupError:
        raise
    except Exception as error:
        raise StartupError(_reason(error)) from error


def _reason(error: BaseException) -> str:
    """Return one line that says why and where the start failed. With LOG_LEVEL=DEBUG, also print the traceback."""
    for handler in logging.getLogger().handlers:
        handler.flush()  # the reason must be the last line
    if isinstance(error, StartupError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
        frames = traceback.extract_tb(error.__traceback__) or frames
    if verbose := logging.getLogger().isEnabledFor(logging.DEBUG):
        traceback.print_exception(error)
    text = f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": ")
    hint = "" if verbose else "; LOG_LEVEL=DEBUG shows the traceback"
    where = f"{frames[-1].filename}:{frames[-1].lineno}"
    return f"Start failed: {text if text.isprintable() else ascii(text)} ({where}{hint})"


class StartReport:
    """A middleware that prints one line if the app fails to start. Starlette and uvicorn would log two tracebacks."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)
            return
        started, task = False, asyncio.current_task()

        async def send_but_failures(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "lifespan.startup.complete"
            if message["type"] == "lifespan.shutdown.failed" and _is_cancelled(task):
                # A second SIGTERM cancels the lifespan. This is no error, so the log gets no traceback.
                message = {**message, "message": ""}
            if message["type"] != "lifespan.startup.failed":
                await send(message)

        try:
            await self._app(scope, receive, send_but_failures)
        except asyncio.CancelledError:
            if not started and _is_cancelled(task):  # a signal has stopped the start, which is no error either
                await send({"type": "lifespan.startup.failed", "message": ""})
            raise
        except (Exception, SystemExit) as error:
            if started:
                raise
            if not _is_cancelled(task):
                print_reason(error)
            logging.getLogger("uvicorn.error").disabled = True  # uvicorn would log only that the start failed
            await send({"type": "lifespan.startup.failed", "message": ""})


def _is_cancelled(task: "asyncio.Task[object] | None") -> bool:
    return task is not None and task.cancelling() > 0


_CHECKED = ("fastmcp", "mcp")
"""The packages whose private names anyreplica uses. Another version may lack such a name, and calls would fail."""


def check_versions() -> None:
    """Compare the installed versions with the requirements of anyreplica.

    An installer refuses a conflict, but a later installation of another version can still bring one about.

    Raises:
        StartupError: a version is outside of the range, or a package is missing.
    """
    for requirement in map(Requirement, _requirements()):
        if requirement.name not in _CHECKED:
            continue
        needed = f"anyreplica {__version__} needs {requirement.name}{requirement.specifier}"
        try:
            installed = version(requirement.name)
        except PackageNotFoundError:
            raise StartupError(f"{requirement.name}: not installed; {needed}") from None
        if not requirement.specifier.contains(installed, prereleases=True):
            raise StartupError(
                f"{requirement.name} {installed}: {needed}; install your server's packages and anyreplica in one "
                "command, so that the installer finds versions that fit both"
            )


def _requirements() -> list[str]:
    try:
        return requires("anyreplica") or []
    except PackageNotFoundError:  # the source is on the path, and nothing is installed
        return []
