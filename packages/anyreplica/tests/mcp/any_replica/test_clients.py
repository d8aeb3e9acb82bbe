"""Test of the MCP SDK's client with several replicas. `tests/fastmcp_server` uses FastMCP's client."""

from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import LoggingMessageNotificationParams, PromptReference, TextContent, TextResourceContents

from tests.mcp.any_replica.callbacks import elicit, roots, said, sample
from tests.mcp.any_replica.rounds import ROUNDS
from tests.replicas import Fleet


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28", "auto"])
@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
async def test_the_sdks_client_holds_a_conversation(fleet: Fleet, mode: str) -> None:
    """The SDK's client can use every kind of request while its requests go to all replicas."""
    served: set[str] = set()
    reports: list[float] = []
    logged: list[LoggingMessageNotificationParams] = []

    async def note(response: httpx2.Response) -> None:
        served.add(response.headers["x-served-by"])

    async def log(params: LoggingMessageNotificationParams) -> None:
        logged.append(params)

    async def reported(progress: float, total: float | None, message: str | None) -> None:
        reports.append(progress)

    async with httpx2.AsyncClient(event_hooks={"response": [note]}, timeout=60) as http:
        transport = streamable_http_client(f"{fleet.url}/mcp", http_client=http)
        callbacks: dict[str, Any] = {"elicitation_callback": elicit, "sampling_callback": sample}
        callbacks |= {"list_roots_callback": roots, "logging_callback": log, "log_level": "info"}
        async with Client(transport, mode=mode, cache=None, **callbacks) as client:
            assert "echo" in [tool.name for tool in (await client.list_tools()).tools]
            assert said(await client.call_tool("echo", {"message": "hällo 🌍"})) == "hällo 🌍"
            (contents,) = (await client.read_resource("test://template/7/data")).contents
            assert isinstance(contents, TextResourceContents)
            assert '"id": "7"' in contents.text
            (message,) = (await client.get_prompt("test_simple_prompt")).messages
            assert isinstance(message.content, TextContent)
            reference = PromptReference(type="ref/prompt", name="test_prompt_with_arguments")
            completion = await client.complete(reference, {"name": "arg1", "value": "par"})
            assert completion.completion.values == ["paris", "park", "party"]
            assert (await client.call_tool("no_such_tool")).is_error
            with pytest.raises(MCPError, match="not found"):
                await client.read_resource("test://no-such-resource")
            await client.call_tool("test_tool_with_progress", progress_callback=reported)
            await client.call_tool("test_tool_with_logging")
            if mode != "legacy":
                for tool, answer in ROUNDS.items():
                    assert said(await client.call_tool(tool)) == answer
    assert served == {"replica-1", "replica-2", "replica-3"}
    assert reports == [0, 50, 100]
    assert len(logged) == 3
