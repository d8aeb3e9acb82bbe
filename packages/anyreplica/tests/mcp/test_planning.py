"""The plans of tools with several versions, and the steps of middleware."""

import asyncio
from typing import Any

from fastmcp import FastMCP
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import ToolResult

from anyreplica.mcp.plan import steps_of
from anyreplica.mcp.planning import Plans, plan


def planned(mcp: FastMCP) -> tuple[Plans, dict[str, float]]:
    """Return the plans of a server's tools, and the time limits by name."""
    limits: dict[str, float] = {}
    return asyncio.run(plan(mcp, 60, limits, keeps_state=False)), limits


def hello() -> str:
    """Greet."""
    return "hello"


async def slow() -> str:
    """Greet later."""
    return "hello"


def test_a_name_is_called_directly_only_if_all_its_versions_allow_it() -> None:
    """A call without a version reaches the newest one, so an older one must not decide for it."""
    mcp = FastMCP("server")
    mcp.tool(hello, name="both", version="1")
    mcp.tool(slow, name="both", version="2", task=True)
    mcp.tool(slow, name="other", version="1", task=True)
    mcp.tool(hello, name="other", version="2")
    mcp.tool(hello, name="plain", version="1")
    mcp.tool(hello, name="plain", version="2")
    plans, _ = planned(mcp)
    assert plans.direct.keys() == {"plain"}


def test_the_longest_time_limit_of_the_versions_counts() -> None:
    """A version with a short limit of its own does not cut the calls of another version."""
    mcp = FastMCP("server")
    mcp.tool(hello, name="short-first", version="1", timeout=1)
    mcp.tool(hello, name="short-first", version="2")
    mcp.tool(hello, name="short-last", version="1", timeout=90)
    mcp.tool(hello, name="short-last", version="2", timeout=2)
    mcp.tool(hello, name="alone", timeout=3)
    plans, limits = planned(mcp)
    assert limits == {"short-first": 60, "short-last": 90, "alone": 3}
    assert {name: each.seconds for name, each in plans.direct.items()} == limits


class OnlyCalls(Middleware):
    """A middleware with the hook of calls only."""

    async def on_call_tool(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> ToolResult:
        """Pass the call on."""
        result: ToolResult = await call_next(context)
        return result


class AllRequests(OnlyCalls):
    """A middleware that sees all requests."""

    async def on_request(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        """Pass the request on."""
        return await call_next(context)


def test_only_the_outermost_hook_is_called_directly() -> None:
    """A middleware may change the method, so FastMCP chooses the hooks of those behind it."""
    calls, requests = OnlyCalls(), AllRequests()
    assert steps_of(()) == ()
    assert steps_of((calls, calls)) == (calls.on_call_tool, calls)
    assert steps_of((requests, calls)) == (requests, calls)
