"""Tests of tools that run as tasks: any replica submits, runs, reports and cancels a task.

Only protocol version 2026-07-28 has tasks. A client of the handshake protocol waits for the tool's result.
"""

from typing import Any

import pytest
from fastmcp.client.elicitation import ElicitResult
from fastmcp.exceptions import ToolError
from fastmcp_tasks import call_tool_task
from fastmcp_tasks.client_models import ClientCreateTaskResult
from mcp import MCPError
from mcp_types import InputRequiredResult

from tests.fastmcp_server.clients import REPLICAS, conversation, said
from tests.replicas import Fleet

pytestmark = [pytest.mark.anyio, pytest.mark.needs("redis")]


async def test_a_tool_runs_as_a_task(brought: Fleet) -> None:
    """A task has its dependencies, Context and headers. A client of the handshake protocol waits for the result."""
    async with conversation(brought, "stateless") as client:
        tasks = [await call_tool_task(client, "later_print_book", {"pages": pages}) for pages in (1, 2, 3)]
        for pages, task in enumerate(tasks, 1):
            result = await task.result()
            assert result.data == f"{pages} pages, later, by tasks, for stateless"
            assert (await task.status()).status == "completed"
    async with conversation(brought, "handshake") as without:
        assert await said(without, "later_print_book", pages=2) == "2 pages, now, by tasks, for handshake"


async def test_a_tool_that_needs_a_task(brought: Fleet) -> None:
    """A tool with FastMCP's option `mode="required"` is refused for a client without tasks, and runs for others."""
    async with conversation(brought, "stateless") as client:
        task = await call_tool_task(client, "later_only_later", {})
        assert task.create_result.poll_interval_ms == 50
        assert (await task.result()).data == {"done": 1}
    async with conversation(brought, "handshake") as without:
        for _ in range(REPLICAS):
            with pytest.raises(MCPError, match="requires the tasks extension"):
                await without.call_tool("later_only_later")


async def test_a_task_that_fails(brought: Fleet) -> None:
    """The error of a failed task reaches the client. A task id that nobody has is an error on every replica."""
    async with conversation(brought, "stateless") as client:
        task = await call_tool_task(client, "later_fails_later", {})
        with pytest.raises(ToolError, match="no paper"):
            await task.result()
        vars(task.create_result)["task_id"] = "made-up"
        for _ in range(REPLICAS):
            with pytest.raises(MCPError):
                await task.status()


async def test_a_task_that_asks(brought: Fleet) -> None:
    """A task asks its client; the answer reaches the task through any replica."""
    asked: list[str] = []

    async def answer(message: str, response_type: Any, params: Any, context: Any) -> Any:
        asked.append(message)
        return ElicitResult(action="accept", content={"size": "A4"})

    async with conversation(brought, "stateless", elicitation_handler=answer) as client:
        assert (await (await call_tool_task(client, "later_waits", {})).result()).data == "printed on A4"
    assert asked == ["Which paper?"]


async def test_a_task_that_asks_first(brought: Fleet) -> None:
    """A tool that only runs as a task asks in the reply to its call. The answer, at another replica, gets the task."""

    async def answer(message: str, response_type: Any, params: Any, context: Any) -> Any:
        return ElicitResult(action="accept", content={"size": "A5"})

    async with conversation(brought, "stateless", elicitation_handler=answer) as client:
        asked: Any = await client.session.call_tool("later_asks_first", allow_input_required=True)
        assert isinstance(asked, InputRequiredResult)
        assert asked.input_requests
        given: Any = {key: {"action": "accept", "content": {"size": "A4"}} for key in asked.input_requests}
        for answers, expected in (({}, InputRequiredResult), (given, ClientCreateTaskResult)):
            given = {"input_responses": answers, "request_state": asked.request_state, "allow_claimed": True}
            asked = await client.session.call_tool("later_asks_first", allow_input_required=True, **given)
            assert type(asked) is expected
        assert (await client.call_tool("later_asks_first")).data == "printed on A5"


async def test_a_task_is_cancelled(brought: Fleet) -> None:
    """Any replica cancels a task, and all replicas see that it is cancelled."""
    async with conversation(brought, "stateless") as client:
        task = await call_tool_task(client, "later_never_ends", {})
        assert (await task.status()).status == "working"
        await task.cancel()
        while (await task.status()).status == "working":
            pass
        assert [(await task.status()).status for _ in range(REPLICAS)] == ["cancelled"] * REPLICAS
