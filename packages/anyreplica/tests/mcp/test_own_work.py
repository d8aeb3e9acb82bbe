"""Tests that middleware of a server's author sees the requests of clients only, and no work of this package."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from fastmcp import FastMCP
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext

from anyreplica import Settings, create_app
from anyreplica.testing import replica


class Sees(Middleware):
    """Middleware that notes the method of each request, as one with a single hook for all requests."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def on_message(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        self.seen.append(f"{context.method}")
        return await call_next(context)


class SeesLists(Sees):
    """The same with a hook for each kind of list. It lets no request without a caller pass."""

    on_message = Middleware.on_message

    async def _see(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        self.seen.append(f"{context.method}")
        return await call_next(context)

    on_list_tools = on_list_resources = on_list_resource_templates = on_list_prompts = _see


class SeesAll(Sees):
    """The same as a raw middleware."""

    on_message = Middleware.on_message

    async def __call__(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        self.seen.append(f"{context.method}")
        return await call_next(context)


class SeesByAttribute(Sees):
    """The same, with its hook as an attribute of the object."""

    def __init__(self) -> None:
        super().__init__()
        setattr(self, "on_message", partial(Sees.on_message, self))  # noqa: B010  # for the type check, it is a method

    on_message = Middleware.on_message


@pytest.mark.parametrize("kind", [Sees, SeesLists, SeesAll, SeesByAttribute])
def test_middleware_sees_requests_of_clients_only(kind: Callable[[], Sees]) -> None:
    """Neither the start nor a change of the components is a request for the middleware, also in a mounted server."""
    outer, inner = kind(), kind()
    mcp, mounted = FastMCP("outer", middleware=[outer]), FastMCP("inner", middleware=[inner])
    mounted.tool(lambda: "one", name="one")
    mounted.prompt(lambda: "two", name="two")
    mounted.resource("data://three")(lambda: "three")
    mcp.mount(mounted, namespace="inner")
    with replica(lambda: create_app(mcp, Settings(mcp_components=()))) as client:
        assert (outer.seen, inner.seen) == ([], [])
        assert client.tools() == ["inner_one"]
        assert (outer.seen, inner.seen) == (["tools/list"], ["tools/list"])
        mounted.tool(lambda: "four", name="four")
        assert client.tools() == ["inner_one", "inner_four"]
        assert (outer.seen, inner.seen) == (["tools/list"] * 2, ["tools/list"] * 2)
