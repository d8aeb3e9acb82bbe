"""The app that `http_app()` of a server returns in a test: anyreplica answers its requests."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import Context, copy_context
from functools import cached_property
from types import MappingProxyType
from typing import Any

from fastmcp.utilities.asgi_transport import run_asgi_lifespan
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from upstream import serving


class HttpApp:
    """An ASGI app that anyreplica serves from the start of its lifespan to the end.

    All other attributes are those of the app that the server's own library makes.

    Args:
        server: the server.
        own_app: the app of the server's own library.
        middleware: ASGI middleware that the test gave to `http_app()`.
        settings: values of anyreplica's settings that stand for other options of `http_app()`.
    """

    def __init__(
        self,
        server: Any,
        own_app: Any,
        middleware: Sequence[Middleware] = (),
        settings: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        self._server, self._own, self._middleware, self._settings = server, own_app, middleware, settings
        self.sessions: dict[str, None] = {}
        """The ids of the sessions that a reply has opened and that no DELETE has ended."""
        self._app: ASGIApp | None = None
        self._context = Context()
        self._lifespan = Starlette(lifespan=self._serving)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or start and stop the server."""
        if scope["type"] == "lifespan":
            serving.within_server.set(True)
            await self._lifespan(scope, receive, send)
            return
        if self._app is None:  # a test that starts no lifespan
            self._context.run(serving.within_server.set, True)
            self._app = self._context.run(serving.app_of, self._server, self._middleware, self._settings)

        async def note(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._note_session(scope, message)
            await send(message)

        # A server on a port answers requests in a context of its own, and not in that of its client.
        running = self._app(scope, receive, note)
        task = asyncio.get_running_loop().create_task(_awaited(running), context=self._context.copy())
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait((task,), timeout=2)
            raise

    def _note_session(self, scope: Scope, start: Message) -> None:
        if opened := Headers(raw=start["headers"]).get("mcp-session-id"):
            self.sessions[opened] = None
        if scope["method"] == "DELETE" and start["status"] < 300:
            self.sessions.pop(Headers(scope=scope).get("mcp-session-id", ""), None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_own"], name)

    @cached_property
    def router(self) -> "_Router":
        """The router of the app, with the lifespan of this app."""
        return _Router(self)

    def lifespan(self, _: Any) -> AbstractAsyncContextManager[None]:
        """Return a context manager in which the server runs."""
        return run_asgi_lifespan(self)

    @asynccontextmanager
    async def _serving(self, _: Any) -> AsyncIterator[None]:
        async with serving.by_anyreplica(self._server, self._middleware, self._settings) as served:
            self._app, self._context = served.app, copy_context()
            yield


async def _awaited(running: Awaitable[None]) -> None:
    await running


class _Router:
    def __init__(self, app: HttpApp) -> None:
        self.lifespan_context = app.lifespan
        self._app = app

    def __getattr__(self, name: str) -> Any:
        return getattr(self._app._own.router, name)  # noqa: SLF001  # both classes are one thing
