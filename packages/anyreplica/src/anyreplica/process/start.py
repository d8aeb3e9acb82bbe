"""Print one line that says why a process cannot start."""

import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anyreplica.settings.errors import StartupError


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
        started = False

        async def send_but_failures(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "lifespan.startup.complete"
            if message["type"] != "lifespan.startup.failed":
                await send(message)

        try:
            await self._app(scope, receive, send_but_failures)
        except (Exception, SystemExit) as error:
            if started:
                raise
            print(_reason(error), file=sys.stderr)  # noqa: T201
            logging.getLogger("uvicorn.error").disabled = True  # uvicorn would log only that the start failed
            await send({"type": "lifespan.startup.failed", "message": ""})
