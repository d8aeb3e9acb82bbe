"""Official clients are asked, and hear changes, while each of their requests goes to the next replica."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp import Client as FastMCPClient
from fastmcp.client.elicitation import ElicitResult as FastMCPElicitResult
from fastmcp.client.transports import StreamableHttpTransport
from mcp import Client
from mcp.client.context import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitRequestParams, ElicitResult

from tests.mcp.any_replica.callbacks import elicit, roots, said, sample
from tests.mcp.any_replica.rounds import ROUNDS
from tests.replicas import Fleet
from tests.sessions.fleets import own_fleet

pytestmark = [
    pytest.mark.servers,
    pytest.mark.needs("redis"),
    pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning"),
]


@asynccontextmanager
async def connected(url: str, served: set[str], messages: list[Any]) -> AsyncIterator[Client]:
    """Connect the SDK's client with the handshake protocol. It notes the replicas and the notifications."""

    async def note(response: httpx2.Response) -> None:
        served.add(response.headers["x-served-by"])

    async def hear(message: Any) -> None:
        messages.append(message)

    async with httpx2.AsyncClient(event_hooks={"response": [note]}, timeout=60) as http:
        client = Client(
            streamable_http_client(f"{url}/mcp", http_client=http),
            mode="legacy",
            cache=None,
            elicitation_callback=elicit,
            sampling_callback=sample,
            list_roots_callback=roots,
            message_handler=hear,
        )
        async with client:
            yield client


async def heard(messages: list[Any], text: str) -> bool:
    """Wait until a notification contains a text."""
    for _ in range(500):
        if any(text in str(message) for message in messages):
            return True
        await asyncio.sleep(0.02)
    return False


def test_the_sdks_client_is_asked_and_hears_changes(full_fleet: Fleet) -> None:
    """The SDK's client answers every kind of question, and hears the change of a resource."""
    served: set[str] = set()
    messages: list[Any] = []

    async def converse() -> None:
        async with connected(full_fleet.url, served, messages) as client:
            for _ in range(3):
                assert said(await client.call_tool("greet")) == "Hello, Ada!"
                assert said(await client.call_tool("test_sampling", {"prompt": "?"})) == "LLM response: Paris"
                assert said(await client.call_tool("folders")) == "file:///work"
                assert said(await client.call_tool("two_at_once")) == "Ada and Ada"
            for tool, expected in ROUNDS.items():
                assert said(await client.call_tool(tool)) == expected
            await client.subscribe_resource("a://sdk")
            await client.call_tool("touch", {"uri": "a://sdk"})
            assert await heard(messages, "a://sdk")
            await client.call_tool("remember", {"value": "tea"})
            assert said(await client.call_tool("recall")) == "tea"

    asyncio.run(converse())
    assert served == {"replica-1", "replica-2", "replica-3"}


def test_many_clients_are_asked_at_once(full_fleet: Fleet) -> None:
    """Fifty clients are asked at the same time, and each one gets the greeting of its own answer."""

    async def one(number: int) -> str:
        async def answer(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
            return ElicitResult(action="accept", content={"value": f"user {number}"})

        async with httpx2.AsyncClient(timeout=60) as http:
            transport = streamable_http_client(f"{full_fleet.url}/mcp", http_client=http)
            async with Client(transport, mode="legacy", cache=None, elicitation_callback=answer) as client:
                return said(await client.call_tool("greet"))

    async def all_of_them() -> list[str]:
        return await asyncio.gather(*map(one, range(50)))

    assert asyncio.run(all_of_them()) == [f"Hello, user {number}!" for number in range(50)]


def test_fastmcps_client_is_asked(full_fleet: Fleet) -> None:
    """FastMCP's client answers a question of `ctx.elicit` and of a multi-round tool."""

    async def answer(message: str, response_type: Any, params: Any, context: Any) -> Any:
        return FastMCPElicitResult(action="accept", content={"value": "Ada", "name": "Ada"})

    async def converse() -> None:
        transport = StreamableHttpTransport(f"{full_fleet.url}/mcp")
        async with FastMCPClient(transport, mode="legacy", cache=False, elicitation_handler=answer) as client:
            assert (await client.call_tool("greet")).data == "Hello, Ada!"
            result = await client.call_tool("test_input_required_result_elicitation")
            assert result.data == "Hello, Ada!"

    asyncio.run(converse())


def test_the_sdks_client_moves_on_when_its_replica_drains(tmp_path: Path) -> None:
    """While a user is being asked, the replica drains. The client resumes the call at another replica by itself."""
    asked_by: list[str] = []

    async def note(response: httpx2.Response) -> None:
        if response.request.method == "POST" and "event-stream" in response.headers.get("content-type", ""):
            asked_by.append(response.headers["x-served-by"])

    async def converse(fleet: Fleet) -> str:
        async def answer(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
            replica = fleet.named(asked_by[-1])
            replica.process.terminate()
            while "draining" not in replica.output:  # noqa: ASYNC110  # another process writes the output
                await asyncio.sleep(0.02)
            return ElicitResult(action="accept", content={"value": "Ada"})

        async with httpx2.AsyncClient(timeout=30, event_hooks={"response": [note]}) as http:
            transport = streamable_http_client(f"{fleet.url}/mcp", http_client=http)
            async with Client(transport, mode="legacy", cache=None, elicitation_callback=answer) as client:
                return said(await client.call_tool("greet"))

    with own_fleet(tmp_path, "asking", 3, DRAIN_SECONDS="5", LOG_LEVEL="INFO") as (fleet, _):
        assert asyncio.run(converse(fleet)) == "Hello, Ada!"
