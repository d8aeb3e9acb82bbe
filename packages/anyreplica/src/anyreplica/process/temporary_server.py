"""A server for tests: it shares the event loop of its caller, and it ignores signals."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from anyreplica.process.lifecycle import Lifecycle
from anyreplica.process.replica import uvicorn_options
from anyreplica.settings import CoreSettings

_TICK_SECONDS = 1.0
"""Time between two updates of the `Date` header, in seconds."""


class _Server(uvicorn.Server):
    """A uvicorn server that stops as soon as `stopping` is set. uvicorn itself would wait for up to 0.1 s."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.stopping = asyncio.Event()
        self.serving = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        counter = 0
        while not self.stopping.is_set():
            await self.on_tick(counter)
            self.serving.set()
            counter += 10  # uvicorn updates the header at every tenth tick
            with suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), _TICK_SECONDS)


@asynccontextmanager
async def listening(app: ASGIApp, settings: CoreSettings, lifecycle: Lifecycle) -> AsyncIterator[int]:
    """Serve an app on a free port of 127.0.0.1 inside the block. Return the port.

    Raises:
        Exception: What the app raised at its start or at its stop.
    """
    failures: list[BaseException] = []

    async def keep_failures(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        except BaseException as error:
            if scope["type"] == "lifespan":
                failures.append(error)
            raise

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = _Server(uvicorn.Config(**uvicorn_options(settings, keep_failures)))
        task = asyncio.create_task(_serve(server, listener))
        started = asyncio.create_task(server.serving.wait())
        try:
            await asyncio.wait((task, started), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                yield listener.getsockname()[1]
        finally:
            started.cancel()
            for end in (*lifecycle.on_drain, *lifecycle.on_stop):
                end()
            server.stopping.set()
            await task
    if failures:
        raise failures[0]


async def _serve(server: _Server, listener: socket.socket) -> None:
    with suppress(SystemExit):  # uvicorn exits if the app does not start
        await server.serve([listener])
