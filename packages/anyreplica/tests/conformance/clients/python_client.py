"""Conversations of the official Python client with a swarm: `python -m … URL COUNT AT_ONCE`.

Each conversation prints a line of JSON: for each step, the text that the client got or the error.
"""

import asyncio
import json
import logging
import os
import random
import sys
import warnings
from collections.abc import Awaitable
from contextvars import ContextVar
from typing import Any

import httpx2
from mcp import Client, MCPDeprecationWarning
from mcp.client.context import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams, ElicitResult

from tests.mcp.any_replica import callbacks

_MOST_SECONDS = 60
_gave_up: ContextVar[asyncio.Event] = ContextVar("gave_up")
"""Set when the client of this conversation opens its event stream outside of calls no more."""


class _Streams(logging.Handler):
    """Notes which clients give up their event stream outside of calls.

    The SDK does so after the second broken connection in a session. It only logs this, at the level DEBUG, in the
    context of the conversation.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Note the client, if the message says that it gives up."""
        if record.getMessage().startswith("GET stream max reconnection attempts"):
            _gave_up.get().set()


async def _elicit(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    """Answer like a user who takes up to a second."""
    await asyncio.sleep(random.random())  # noqa: S311
    return await callbacks.elicit(context, params)


async def _sample(context: ClientRequestContext, params: CreateMessageRequestParams) -> CreateMessageResult:
    """Answer like a model that takes up to a second."""
    await asyncio.sleep(random.random())  # noqa: S311
    return await callbacks.sample(context, params)


async def _converse(url: str, number: str) -> None:
    steps: dict[str, str] = {}
    uri, heard = f"a://{number}", asyncio.Event()
    gave_up = asyncio.Event()
    _gave_up.set(gave_up)

    async def hear(message: Any) -> None:
        if uri in str(message):
            heard.set()

    async def step(name: str, work: Awaitable[Any]) -> None:
        try:
            result = await work
            steps[name] = callbacks.said(result) if hasattr(result, "content") else "done"
        except Exception as error:  # noqa: BLE001  # the test reads every error
            steps[name] = f"error: {error}"

    async def until_heard() -> None:
        # A notification is lost if it comes while the client opens its event stream again.
        for _ in range(20):
            await client.call_tool("touch", {"uri": uri})
            try:
                await asyncio.wait_for(heard.wait(), 1)
            except TimeoutError:
                continue
            return
        raise TimeoutError("the client has given its event stream up" if gave_up.is_set() else "heard nothing")

    async with httpx2.AsyncClient(timeout=_MOST_SECONDS) as http:
        client = Client(
            streamable_http_client(f"{url}", http_client=http),
            mode="legacy",
            cache=None,
            elicitation_callback=_elicit,
            sampling_callback=_sample,
            message_handler=hear,
        )
        try:
            async with client:
                steps["connect"] = "done"
                await step("subscribe", client.subscribe_resource(uri))
                await step("greet", client.call_tool("greet"))
                await step("interview", client.call_tool("interview", {"path": "/dev/null"}))
                await step("test_sampling", client.call_tool("test_sampling", {"prompt": "?"}))
                await step("hear", until_heard())
            steps["end"] = "done"
        except Exception as error:  # noqa: BLE001
            steps["end" if "hear" in steps else "connect"] = f"error: {error!r}"
    print(json.dumps(steps), flush=True)


async def _main(url: str, count: int, at_once: int) -> None:
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            await _converse(url, f"{os.getpid()}-{number}")

    await asyncio.gather(*(work() for _ in range(at_once)))


if __name__ == "__main__":
    warnings.filterwarnings("ignore", category=MCPDeprecationWarning)
    log = logging.getLogger("mcp.client.streamable_http")
    log.addHandler(_Streams())
    log.setLevel(logging.DEBUG)
    log.propagate = False
    asyncio.run(_main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
