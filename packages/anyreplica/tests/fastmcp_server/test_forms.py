"""Tests that functions in every form get the answers of FastMCP itself, on each path and with each protocol."""

import asyncio
from contextlib import closing
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from mcp import MCPError

from anyreplica.mcp.compat.sdk import low_level
from anyreplica.mcp.compat.shared_dependencies import lifespan
from tests.calls import ENVELOPE, VERSION, request
from tests.fastmcp_server.forms import contents, forms, make
from tests.mcp.paths.asked import HANDSHAKE, sent
from tests.mcp.paths.both import Pair

REQUESTS: list[tuple[str, dict[str, Any]]] = [
    *(("tools/call", {"name": name, "arguments": {"x": 4}}) for name in forms()),
    *(("tools/call", {"name": f"inner_{name}", "arguments": {"x": 4}}) for name in ("on_loop", "shared", "calls")),
    *(("prompts/get", {"name": name, "arguments": {"x": "4"}}) for name in forms()),
    *(("resources/read", {"uri": f"one://{name}"}) for name in forms() | contents()),
    *(("resources/read", {"uri": f"many://{name}/4"}) for name in forms() | contents()),
]
FAILING = [("resources/read", {"uri": "many://another/4"})]
"""FastMCP accepts a resource as the result of a resource, but not as the result of a template."""
_OF_TRANSPORT = {"ttlMs", "cacheScope", "resultType"}
"""Members of a result that depend on the transport."""


async def expected(mode: str) -> list[dict[str, Any]]:
    """Return the results of FastMCP itself, without the name of the server."""
    results: list[dict[str, Any]] = []
    async with Client(make(), mode=mode) as client:
        read = {"prompts/get": client.get_prompt_mcp, "resources/read": client.read_resource_mcp}
        for method, params in REQUESTS:
            try:
                result = await (client.call_tool_mcp if method == "tools/call" else read[method])(**params)
                results.append(compared(result.model_dump(by_alias=True, mode="json", exclude_none=True)))
            except MCPError:
                results.append({})
    return results


def compared(result: dict[str, Any]) -> dict[str, Any]:
    """Return the members of a result that do not depend on the transport."""
    meta = {name: value for name, value in result.get("_meta", {}).items() if "serverInfo" not in name}
    return {**{name: value for name, value in result.items() if name not in _OF_TRANSPORT}, "_meta": meta}


@pytest.mark.parametrize(("mode", "version"), [("legacy", HANDSHAKE), (VERSION, VERSION)])
def test_functions_in_every_form(mode: str, version: str) -> None:
    """Methods, callable objects, partials and shared dependencies work in tools, resources, templates and prompts."""
    results = asyncio.run(expected(mode))
    assert [asked for asked, result in zip(REQUESTS, results, strict=True) if not result] == FAILING
    with closing(Pair(make=make)) as pair:
        assert {path.partition(",")[0] for path in pair.fast.paths.plans.paths.values()} == {"fast"}
        for (method, params), result in zip(REQUESTS, results, strict=True):
            meta = {"_meta": ENVELOPE} if version == VERSION else {}
            answer = pair.check(sent(request(method, params | meta), version)).message
            assert compared(answer.get("result", {})) == compared(result), params


@pytest.mark.anyio
async def test_a_server_that_another_task_serves() -> None:
    """A server whose lifespan another task has entered can be served, too, for example in a test of its author."""
    mcp, entered, go_on = FastMCP("server"), asyncio.Event(), asyncio.Event()

    async def enter() -> None:
        async with low_level(mcp).lifespan(low_level(mcp)):
            entered.set()
            await go_on.wait()

    task = asyncio.create_task(enter())
    await entered.wait()
    async with lifespan(mcp):
        go_on.set()
    await task
