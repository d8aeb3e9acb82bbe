"""Tests that middleware of a server's author sees the messages of clients only, and no work of this package."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from fastmcp import FastMCP
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext

from anyreplica import Settings, create_app
from anyreplica.testing import replica
from tests.calls import HEADERS


class Sees(Middleware):
    """Middleware that notes the method of each request, as one with a single hook for all requests."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def on_message(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        self.seen.append(f"{context.method}")
        return await call_next(context)


class SeesLists(Sees):
    """The same with a hook for each kind of list. It lets no request without a caller pass."""

    on_list_tools = on_list_resources = on_list_resource_templates = on_list_prompts = Sees.on_message
    on_message = Middleware.on_message


class SeesAll(Sees):
    """The same as a raw middleware."""

    __call__ = Sees.on_message
    on_message = Middleware.on_message


class SeesByAttribute(Sees):
    """The same, with its hook as an attribute of the object."""

    def __init__(self) -> None:
        super().__init__()
        setattr(self, "on_message", partial(Sees.on_message, self))  # noqa: B010  # for the type check, it is a method

    on_message = Middleware.on_message


@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "resources/read", "notifications/progress"])
def test_an_invalid_state_in_a_notification_is_not_logged(method: str, caplog: pytest.LogCaptureFixture) -> None:
    """A notification has no state of a request, so an invalid one is ignored, and the middleware still runs."""
    sees = Sees()
    mcp: FastMCP = FastMCP("notified", middleware=[sees])
    message = {"jsonrpc": "2.0", "method": method, "params": {"name": "x", "uri": "x://y", "requestState": "made up"}}
    with replica(lambda: create_app(mcp, Settings(mcp_components=()))) as client:
        reply = client.http.post("/mcp", json=message, headers=HEADERS)
        assert (reply.status_code, reply.content) == (202, b"")
    assert method in sees.seen
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


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
