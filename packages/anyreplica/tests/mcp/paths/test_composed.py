"""Tests that both paths give the same answers for servers that Hypothesis generates."""

import asyncio
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest
from fastmcp import FastMCP
from fastmcp.server.transforms import Transform
from fastmcp.tools import Tool
from fastmcp.utilities.versions import VersionSpec
from hypothesis import HealthCheck, given, note, settings

from tests.calls import ENVELOPE, VERSION, request
from tests.mcp.paths import composed_middleware, composed_tools
from tests.mcp.paths.asked import HANDSHAKE, WARNINGS, called, sent
from tests.mcp.paths.both import Pair
from tests.mcp.paths.composed import OneServer, servers
from tests.mcp.paths.composed_changes import Change, apply, changes

pytestmark = [pytest.mark.slow, *WARNINGS]

EXAMPLES = int(os.environ.get("PATHS_EXAMPLES", "500")) // 50  # each example starts three servers
"""Number of servers that each test generates. Each server gets about 50 requests."""

ARGUMENTS: dict[str, list[dict[str, Any]]] = {HANDSHAKE: [{"x": 2}, {"unknown": 1}], VERSION: [{}, {"x": "no"}]}
UNKNOWN = ("no_such", "a_plain", "plain", "one", "uno", "two", "deux", "zwei", "a_one", "a_b_two", "ns_plain")

_EXPECTED = [HealthCheck.too_slow, HealthCheck.data_too_large]
OPTIONS = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=_EXPECTED)


@pytest.fixture(autouse=True)
def without_log() -> Iterator[None]:
    """Drop the log, in which each of the many failed calls has a traceback."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


async def names_of(pair: Pair) -> list[str]:
    """Return the names of all tools that the server lists, each once."""
    return sorted({tool.name for tool in await pair.full.exchange.mcp.list_tools(run_middleware=False)})


def compare(pair: Pair) -> None:
    """Compare all answers of both paths."""
    for version in (HANDSHAKE, VERSION):
        listed = request("tools/list", {"_meta": ENVELOPE} if version == VERSION else {})
        pair.check(sent(listed, version))
        names = pair.runner.run(names_of(pair))
        for name in names:
            for arguments in ARGUMENTS[version]:
                pair.check(called(name, arguments, version))
        for name in UNKNOWN:
            pair.check(called(name, {}, version, **({"fastmcp": {"version": "1.0"}} if name in names else {})))


@OPTIONS
@given(server=servers())
def test_any_server_gives_one_answer(server: OneServer) -> None:
    """Both paths give the same lists and the same answer to each call, with known, hidden and unknown names."""
    with closing(Pair(make=server.make)) as pair:
        note(f"paths: {pair.fast.paths.plans.paths}")
        compare(pair)


def compared(make: Callable[[], FastMCP]) -> dict[str, str]:
    """Compare all answers of a server, and return the path of each tool."""
    with closing(Pair(make=make)) as pair:
        compare(pair)
        return dict(pair.fast.paths.plans.paths)


def test_a_mounted_tool_that_is_not_listed_is_called() -> None:
    """Both paths call the newest tool of a name, also if a mounted server's middleware keeps it out of the list."""

    def make() -> FastMCP:
        root, child = FastMCP("root"), FastMCP("child", middleware=[composed_middleware.Hides("hides")])
        root.tool(composed_tools.plain, name="one", version="1.0")
        root.tool(composed_tools.plain, name="apart")
        child.tool(composed_tools.point, name="one", version="2.0")
        root.mount(child)
        return root

    assert "Hides may hide" in compared(make)["one"]


def test_a_version_that_is_hidden_outside_its_server() -> None:
    """Both paths call the same version if the server around hides the newest version of a mounted server."""

    def make() -> FastMCP:
        root, child = FastMCP("root"), FastMCP("child")
        child.tool(composed_tools.plain, name="one", version="1.0")
        child.tool(composed_tools.point, name="one", version="2.0")
        root.mount(child, namespace="a")
        root.disable(version=VersionSpec(eq="2.0"))
        return root

    assert compared(make)["a_one"] == "fastmcp: its mounted server lists no single tool of this name"


@pytest.mark.parametrize("version", [HANDSHAKE, VERSION])
def test_state_between_middleware_and_a_mounted_tool(version: str) -> None:
    """What the middleware of the root puts into the state of the request, a mounted tool finds, and the reverse."""

    def make() -> FastMCP:
        root, child = FastMCP("root", middleware=[composed_middleware.Traces("traces")]), FastMCP("child")
        child.tool(composed_tools.state)
        root.mount(child, namespace="child")
        return root

    with closing(Pair(make=make)) as pair:
        assert pair.fast.paths.plans.paths["child_state"] == "fast, with middleware Traces"
        content = pair.check(called("child_state", {}, version)).message["result"]["content"]
        assert [each["text"] for each in content] == ["None traces root then tool 1", "traces saw tool 1"]


def test_time_limits_of_mounted_tools() -> None:
    """Both paths end a call after the time limit of the tool, also in a mounted server and within middleware."""

    async def never() -> str:
        await asyncio.Event().wait()
        return "never"

    def make() -> FastMCP:
        servers = [FastMCP("root"), FastMCP("child"), FastMCP("traced", middleware=[composed_middleware.Traces("t")])]
        root, child, traced = servers
        for each in servers:
            each.tool(never, timeout=0.2)
        root.mount(child, namespace="child")
        root.mount(traced, namespace="traced")
        return root

    with closing(Pair(make=make)) as pair:
        for name in ("never", "child_never", "traced_never"):
            for version in (HANDSHAKE, VERSION):
                result = pair.check(called(name, {}, version)).message["result"]
                assert result["content"][0]["text"] == f"tool {name!r} did not finish within 0.2 s"


class Broken(Transform):
    """A transform that cannot list tools."""

    async def list_tools(self, tools: Sequence[Tool]) -> Sequence[Tool]:  # noqa: ARG002
        """Fail."""
        raise ValueError("broken")


def test_a_server_that_cannot_list_its_tools_any_more() -> None:
    """If tools cannot be listed after a change, only the lists fail. Calls and other requests are answered."""

    def make() -> FastMCP:
        root = FastMCP("root")
        root.tool(composed_tools.plain)
        return root

    with closing(Pair(make=make)) as pair:
        for side in pair.sides:
            side.exchange.mcp.add_transform(Broken())
        for version in (HANDSHAKE, VERSION):
            assert pair.check(called("plain", {}, version)).message["result"]["structuredContent"] == {"result": 2}
            listed = request("tools/list", {"_meta": ENVELOPE} if version == VERSION else {})
            assert "error" in pair.check(sent(listed, version)).message


@OPTIONS
@given(server=servers(), happening=changes)
def test_any_server_gives_one_answer_after_a_change(server: OneServer, happening: list[Change]) -> None:
    """Both paths give the same answers after the server has changed while it runs."""
    with closing(Pair(make=server.make)) as pair:
        pair.check(called("plain", {}, HANDSHAKE))
        pair.check(sent(request("tools/list"), HANDSHAKE))
        for change in happening:
            for side in pair.sides:
                apply(side.exchange.mcp, change)
            # The first request after a change makes new plans, for which the mounted servers list their tools.
            for side in pair.sides:
                pair.runner.run(side.answer(sent(request("ping"), HANDSHAKE)))
            note(f"paths: {pair.fast.paths.plans.paths}")
            compare(pair)
