"""Users of the SDK's client who are asked for their names while all replicas are replaced."""

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import TypeVar

import httpx2
from mcp import Client, MCPError
from mcp.client.context import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitRequestParams, ElicitResult

from tests.mcp.any_replica.callbacks import said

T = TypeVar("T")

USERS = 25
"""Number of users of each tool."""
AT_ONCE = 5
"""Number of users who call at the same time, because the nodes of the tests are slow. Then all are asked at once."""
SECONDS = 60
"""Time limit for the questions of all calls, and for the results after the update, in seconds."""


class Answered(Enum):
    """When a user answers."""

    WHEN_MOVED = "after the client has resumed the call at another replica"
    WHEN_REPLACED = "after all old replicas have ended"


AWAITING = "greet"
"""A tool that asks with `await ctx.elicit`. The call needs its replica, which waits at most SHUTDOWN_GRACE_SECONDS."""
MULTI_ROUND = "test_input_required_result_elicitation"
"""A tool that asks by returning an `InputRequiredResult`."""
ANSWERED = {AWAITING: Answered.WHEN_MOVED, MULTI_ROUND: Answered.WHEN_REPLACED}
"""When the users of each tool answer."""


class User:
    """A user of the SDK's client, who calls a tool, is asked for a name, and answers at the moment in `ANSWERED`.

    Args:
        tool: the tool to call.
        number: a number that is part of the user's name.
        replaced: an event that is set when all old replicas have ended.
    """

    def __init__(self, tool: str, number: int, replaced: asyncio.Event) -> None:
        self.tool = tool
        self.name = f"{tool} user {number}"
        self.asked = asyncio.Event()
        """Whether the client has got the question, or the call has ended without one."""
        self.asked_by = ""
        """The replica that has sent the question."""
        self.moved_to = ""
        """The first other replica at which the client has resumed the call."""
        self._moved = asyncio.Event()
        self._may_answer = self._moved if ANSWERED[tool] is Answered.WHEN_MOVED else replaced

    async def call(self, url: str) -> str:
        """Call the tool and return the text of the result or of the error."""

        async def answer(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
            self.asked.set()
            await self._may_answer.wait()
            return ElicitResult(action="accept", content={"value": self.name, "name": self.name})

        timeout = httpx2.Timeout(30, read=300)  # the SDK's own limits
        try:
            async with httpx2.AsyncClient(timeout=timeout, event_hooks={"response": [self._note]}) as http:
                transport = streamable_http_client(f"{url}/mcp", http_client=http)
                async with Client(transport, mode="legacy", cache=None, elicitation_callback=answer) as client:
                    try:
                        return said(await client.call_tool(self.tool))
                    except MCPError as error:
                        return str(error)
        finally:
            self.asked.set()

    async def _note(self, response: httpx2.Response) -> None:
        """Note the replicas that send the events of the call."""
        if "event-stream" not in response.headers.get("content-type", ""):
            return
        replica = response.headers["x-served-by"]
        if response.request.method == "POST":
            self.asked_by = replica
        elif "last-event-id" in response.request.headers and replica != self.asked_by:
            self.moved_to = self.moved_to or replica
            self._moved.set()


def _outcome(call: asyncio.Task[str]) -> str:
    """Return the text of a call, or why there is none."""
    if not call.done():
        return f"no result within {SECONDS} s after the update"
    error = call.exception()
    return call.result() if error is None else repr(error)


async def converse(url: str, replace: Callable[[], T]) -> tuple[list[User], T]:
    """Let fifty users be asked, replace all replicas, and check that each user gets the greeting for its answer.

    Args:
        replace: a function that replaces all replicas, and returns when the old ones have ended.

    Returns:
        The users, and what `replace` returned.
    """
    replaced = asyncio.Event()
    users = [User(tool, number, replaced) for number in range(USERS) for tool in ANSWERED]
    calls: list[asyncio.Task[str]] = []
    async with asyncio.timeout(SECONDS):
        for first in range(0, len(users), AT_ONCE):
            group = users[first : first + AT_ONCE]
            calls += [asyncio.create_task(user.call(url)) for user in group]
            for user in group:
                await user.asked.wait()
    assert [_outcome(call) for call in calls if call.done()] == [], "all users are still being asked"
    found = await asyncio.to_thread(replace)
    replaced.set()
    await asyncio.wait(calls, timeout=SECONDS)
    outcomes = {user.name: _outcome(call) for user, call in zip(users, calls, strict=True)}
    assert {name: text for name, text in outcomes.items() if text != f"Hello, {name}!"} == {}
    assert all(user.moved_to for user in users), "each client has resumed its call at another replica"
    return users, found
