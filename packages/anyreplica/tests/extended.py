"""A server that uses every extension point. `tests/test_extension_points.py` tests each of them."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from typing import Any

from fastmcp import FastMCP
from fastmcp.server.middleware import Middleware as McpMiddleware
from fastmcp.server.middleware import MiddlewareContext
from fastmcp.tools import tool
from pydantic import Field, SecretStr
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import anyreplica


class Settings(anyreplica.Settings):
    """The settings of anyreplica and two settings of this server: one with a check, and one secret."""

    greeting: str = Field("Hello", max_length=20, description="The word of greeting.")
    greeting_key: SecretStr = Field(SecretStr("none"), description="A secret.")


_SETTINGS = Settings.load()
opened: list[str] = []


@anyreplica.lifespan
async def pool() -> AsyncIterator[None]:
    """Open a pool at the start and close it at the end."""
    opened.append("pool")
    print("the pool is open", flush=True)
    yield
    await asyncio.sleep(float(os.environ.get("CLOSING_SECONDS", "0")))
    print("the pool is closed", flush=True)


@tool
async def greet(name: str) -> str:
    """Greet somebody."""
    return f"{_SETTINGS.greeting}, {name}! {opened} {_SETTINGS.greeting_key.get_secret_value()}"


@anyreplica.job
async def look() -> list[str]:
    """Return the names of the open pools."""
    return opened


class Timed:
    """ASGI middleware that adds a header with the duration of the request."""

    def __init__(self, app: ASGIApp, name: str) -> None:
        self.app = app
        self.name = name.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        started = time.perf_counter()

        async def send_timed(message: Message) -> None:
            if message["type"] == "http.response.start":
                took = b"%.6f" % (time.perf_counter() - started)
                message["headers"] = [*message["headers"], (self.name, took)]
            await send(message)

        await self.app(scope, receive, send_timed)


class Polite(McpMiddleware):
    """FastMCP middleware that changes an argument of a call."""

    async def on_call_tool(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        """Call the tool."""
        if context.message.name == "greet":
            arguments = {"name": f"dear {context.message.arguments['name']}"}
            context = context.copy(message=context.message.model_copy(update={"arguments": arguments}))
        return await call_next(context)


async def hello(request: Request) -> PlainTextResponse:
    """Answer the author's own route."""
    return PlainTextResponse(f"hello {request.query_params.get('name', 'you')}")


class Counted(anyreplica.Feature):
    """A feature: it counts the requests with an error, shows the number at a route, and says that the drain begins."""

    def __init__(self, settings: anyreplica.Settings) -> None:
        super().__init__(settings)
        self.count = 0

    def attach(self, replica: anyreplica.Replica) -> anyreplica.Parts:
        """Return the parts of the replica."""

        def observe(_id: str, _scope: Scope, status: int, _seconds: float) -> None:
            self.count += status >= 400

        async def show(_: Request) -> PlainTextResponse:
            return PlainTextResponse(f"{replica.name}: {self.count}")

        def drained() -> None:
            print("the feature saw the drain", flush=True)

        return anyreplica.Parts(
            middleware=[(anyreplica.Position.OUTERMOST, lambda app: Timed(app, name="x-feature"))],
            open_routes=[Route("/errors", show)],
            observers=[observe],
            on_drain=[drained],
        )


@anyreplica.app_factory
def create_app() -> anyreplica.App:
    """Create the app of one replica."""
    mcp = FastMCP(_SETTINGS.mcp_name, middleware=[Polite()])
    return anyreplica.create_app(
        mcp,
        _SETTINGS,
        middleware=[Middleware(Timed, name="x-took")],
        routes=[Route("/hello", hello)],
        features=[Counted],
    )
