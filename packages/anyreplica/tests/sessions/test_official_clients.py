"""Official clients are asked, and hear changes, while each of their requests goes to the next replica."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.context import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitRequestParams, ElicitResult

from conftest import until
from tests.mcp.any_replica.callbacks import elicit, roots, said, sample
from tests.mcp.any_replica.rounds import ROUNDS
from tests.replicas import Fleet
from tests.sessions.fleets import own_fleet

pytestmark = [pytest.mark.anyio, pytest.mark.servers, pytest.mark.needs("redis")]
pytestmark += [pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]


@asynccontextmanager
async def connected(url: str, seen: list[httpx2.Response] | None = None, **callbacks: Any) -> AsyncIterator[Client]:
    """Connect the SDK's client with the handshake protocol. `seen` gets all responses."""

    async def note(response: httpx2.Response) -> None:
        if seen is not None:
            seen.append(response)

    async with httpx2.AsyncClient(event_hooks={"response": [note]}, timeout=60) as http:
        transport = streamable_http_client(f"{url}/mcp", http_client=http)
        async with Client(transport, mode="legacy", cache=None, **callbacks) as client:
            yield client


async def test_the_sdks_client_is_asked_and_hears_changes(full_fleet: Fleet) -> None:
    """The SDK's client answers every kind of question, and hears the change of a resource."""
    seen: list[httpx2.Response] = []
    messages: list[Any] = []

    async def hear(message: Any) -> None:
        messages.append(message)

    def listens() -> bool:
        return any(each.request.method == "GET" and each.is_success and not each.is_closed for each in seen)

    answering = {"elicitation_callback": elicit, "sampling_callback": sample, "list_roots_callback": roots}
    async with connected(full_fleet.url, seen, **answering, message_handler=hear) as client:
        for _ in range(3):
            assert said(await client.call_tool("greet")) == "Hello, Ada!"
            assert said(await client.call_tool("test_sampling", {"prompt": "?"})) == "LLM response: Paris"
            assert said(await client.call_tool("folders")) == "file:///work"
            assert said(await client.call_tool("two_at_once")) == "Ada and Ada"
        for tool, expected in ROUNDS.items():
            assert said(await client.call_tool(tool)) == expected
        await client.subscribe_resource("a://sdk")
        # A notification is lost if the client has no open event stream. A busy client opens its stream late.
        await asyncio.to_thread(until, listens, "the client has an open event stream", 20)
        await client.call_tool("touch", {"uri": "a://sdk"})
        await asyncio.to_thread(until, lambda: "a://sdk" in str(messages), "the client hears of the resource", 10)
        await client.call_tool("remember", {"value": "tea"})
        assert said(await client.call_tool("recall")) == "tea"
    assert {each.headers["x-served-by"] for each in seen} == {"replica-1", "replica-2", "replica-3"}


async def test_many_clients_are_asked_at_once(full_fleet: Fleet) -> None:
    """Fifty clients are asked at the same time, and each one gets the greeting of its own answer."""

    async def one(number: int) -> str:
        async def answer(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
            return ElicitResult(action="accept", content={"value": f"user {number}"})

        async with connected(full_fleet.url, elicitation_callback=answer) as client:
            return said(await client.call_tool("greet"))

    assert await asyncio.gather(*map(one, range(50))) == [f"Hello, user {number}!" for number in range(50)]


async def test_the_sdks_client_ends_after_a_cancelled_call(full_fleet: Fleet) -> None:
    """The SDK's client gives up a call and ends its session at once, while the reply to the call still arrives.

    The call is long: if its result came before the cancellation, the client itself would fail.
    """
    for _ in range(10):
        async with connected(full_fleet.url) as client:
            with pytest.raises(MCPError, match=r"(?i)timed out"):
                await client.call_tool("nap", {"seconds": 20}, read_timeout_seconds=0.1)


async def test_the_sdks_client_moves_on_when_its_replica_drains(tmp_path: Path) -> None:
    """While a user is being asked, the replica drains. The client resumes the call at another replica by itself."""
    seen: list[httpx2.Response] = []

    async def answer(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        streams = [each for each in seen if "event-stream" in each.headers.get("content-type", "")]
        asked_by = [each.headers["x-served-by"] for each in streams if each.request.method == "POST"]
        replica = fleet.named(asked_by[-1])
        replica.process.terminate()
        await asyncio.to_thread(until, lambda: "draining" in replica.output, "the replica drains")
        return ElicitResult(action="accept", content={"value": "Ada"})

    with own_fleet(tmp_path, "asking", 3, DRAIN_SECONDS="5", LOG_LEVEL="INFO") as (fleet, _):
        async with connected(fleet.url, seen, elicitation_callback=answer) as client:
            assert said(await client.call_tool("greet")) == "Hello, Ada!"
