"""Serve the server of a test over HTTP: with anyreplica, or with the HTTP app that the server brings (the control).

This module uses only the public API of anyreplica, FastMCP, the SDK and uvicorn.
"""

import asyncio
import functools
import logging
import os
import re
import socket
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)
from contextvars import Context, ContextVar
from types import MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary

import uvicorn
from starlette.middleware import Middleware
from starlette.types import ASGIApp

from anyreplica import App, Settings, create_app
from anyreplica.testing import Served, serve

within_server: ContextVar[bool] = ContextVar("within_server", default=False)
"""Whether the code runs in a server. What a server calls in memory, for example a mounted proxy, stays in memory."""

used = [False]
"""Whether the current test has used a server."""


_NONE: Mapping[str, object] = MappingProxyType({})


def app_of(server: Any, middleware: Sequence[Middleware] = (), changed: Mapping[str, object] = _NONE) -> App:
    """Return the app of anyreplica for a server, with some changed settings.

    An app without middleware and changed settings is made once for each server.
    """
    plain = not middleware and not changed
    if plain and server in _apps:
        return _apps[server]
    settings = _settings(tuple(os.environ.items()))
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", server.name).strip("-._")[:64] or settings.mcp_name
    settings = settings.model_copy(update={"mcp_name": name, "mcp_components": (), **changed})
    with _loggers_unchanged(), warnings.catch_warnings():
        app = create_app(server, settings, middleware=middleware)
    if plain:
        _apps[server] = app
    return app


_apps: MutableMapping[Any, App] = WeakKeyDictionary()


@functools.lru_cache(maxsize=1)
def _settings(_: object) -> Settings:
    """Return the settings for an environment. Reading them takes a quarter of the time of a small test."""
    return Settings.load()


@contextmanager
def _loggers_unchanged() -> Iterator[None]:
    """Restore all loggers after the block. Tests of FastMCP look at the log, and set the levels of loggers."""
    root = logging.getLogger()
    loggers = [each for each in logging.Logger.manager.loggerDict.values() if isinstance(each, logging.Logger)]
    before = [(each, each.level, each.handlers[:], each.propagate, each.disabled) for each in (root, *loggers)]
    try:
        yield
    finally:
        for each, level, handlers, propagate, disabled in before:
            if each.level != level:
                each.setLevel(level)  # clears the caches of all loggers
            each.handlers, each.propagate, each.disabled = handlers, propagate, disabled


@asynccontextmanager
async def by_anyreplica(
    server: Any, middleware: Sequence[Middleware] = (), changed: Mapping[str, object] = _NONE
) -> AsyncIterator[Served]:
    """Serve a server with anyreplica inside the block, with some changed settings."""
    async with serve(lambda: app_of(server, middleware, changed)) as served:
        yield served


@asynccontextmanager
async def by_uvicorn(app: ASGIApp) -> AsyncIterator[Served]:
    """Serve an app with uvicorn inside the block."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = _Control(uvicorn.Config(app, ws="none", log_config=None, lifespan="on", timeout_graceful_shutdown=1))
        task = asyncio.create_task(server.serve([listener]))
        try:
            while not server.started:
                await asyncio.wait((task,), timeout=0.01)
                if task.done():
                    raise RuntimeError("The server did not start.")
            yield Served(f"http://127.0.0.1:{listener.getsockname()[1]}", app)
        finally:
            server.should_exit = True
            with suppress(SystemExit):
                await task


class _Control(uvicorn.Server):
    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        return nullcontext()


class Running:
    """A server that clients of a test share. The last of them ends it.

    The server runs in a task with a context of its own, because a client may end in another task than it began.
    """

    def __init__(self, serving: Callable[[], AbstractAsyncContextManager[Served]]) -> None:
        self.clients = 0
        self.loop = asyncio.get_running_loop()
        self.started: asyncio.Future[Served] = self.loop.create_future()
        self._stopping = asyncio.Event()
        context = Context()
        context.run(within_server.set, True)
        self.task = self.loop.create_task(self._run(serving), context=context)

    async def _run(self, serving: Callable[[], AbstractAsyncContextManager[Served]]) -> None:
        try:
            async with serving() as served:
                self.started.set_result(served)
                await self._stopping.wait()
        except BaseException as error:
            if self.started.done():
                raise
            self.started.set_exception(error)

    async def stop(self) -> None:
        """End the server. Raise what it raised at its end."""
        self._stopping.set()
        await asyncio.wait((self.task,), timeout=5)
        if not self.task.done():
            self.task.cancel()
            await asyncio.wait((self.task,), timeout=5)
        elif not self.task.cancelled() and (error := self.task.exception()):
            raise error


_running: MutableMapping[Any, Running] = WeakKeyDictionary()


@asynccontextmanager
async def running(server: Any, serving: Callable[[], AbstractAsyncContextManager[Served]]) -> AsyncIterator[Served]:
    """Inside the block, a server runs. `serving` returns the context manager that serves it."""
    used[0] = True
    found = _running.get(server)
    if found is None or found.loop is not asyncio.get_running_loop() or found.task.done():
        found = _running[server] = Running(serving)
    found.clients += 1
    try:
        yield await asyncio.shield(found.started)
    finally:
        found.clients -= 1
        if not found.clients:
            if _running.get(server) is found:
                del _running[server]
            await found.stop()
