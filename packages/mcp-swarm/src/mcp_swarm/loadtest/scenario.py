"""What callers do: one call, a mix of calls, or a whole conversation."""

import random
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

from mcp_swarm.loadtest.connection import HttpReply
from mcp_swarm.loadtest.fields import maker
from mcp_swarm.loadtest.message import CLIENT, Family, SentRequest, Writer

Exchange = Callable[[SentRequest], Awaitable[HttpReply | None]]
"""Sends a request and notes what comes of it; gives the reply of a success."""


class Scenario(Protocol):
    """What a caller does again and again."""

    async def perform(self, number: int, family: Family, exchange: Exchange) -> None:
        """Do it once; `number` is no other's."""


class Single:
    """One request.

    Args:
        method: the JSON-RPC method.
        params: its params, with fields (`loadtest.fields`).

    Raises:
        ValueError: a field that makes no sense.
    """

    def __init__(self, writer: Writer, method: str, params: Mapping[str, Any]) -> None:
        self._writer = writer
        self._method = method
        self._params = params
        self._make = maker(params)

    async def perform(self, number: int, family: Family, exchange: Exchange) -> None:
        """Send it."""
        params = self._make(number) if self._make else self._params
        await exchange(self._writer.request(family, number, self._method, params))


class Echo:
    """A call of the tool `echo`, with a text that no other call has, which must come back."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._run = secrets.token_hex(3)

    async def perform(self, number: int, family: Family, exchange: Exchange) -> None:
        """Send it."""
        await exchange(echo(self._writer, family, number, f"load {self._run} {number}"))


def echo(writer: Writer, family: Family, identity: int, text: str, *, session: str = "") -> SentRequest:
    """A call of the tool `echo`, whose right answer is the text."""
    params = {"name": "echo", "arguments": {"message": text}}
    return writer.request(family, identity, "tools/call", params, text=text, session=session)


class Mix:
    """Several scenarios, each as often as its weight says.

    Raises:
        ValueError: no weight is above 0.
    """

    def __init__(self, weighted: Sequence[tuple[float, Scenario]]) -> None:
        self._scenarios = [scenario for _, scenario in weighted]
        self._weights = list(accumulate(weight for weight, _ in weighted))
        if not self._weights or self._weights[-1] <= 0:
            raise ValueError("a mix needs a weight above 0")

    async def perform(self, number: int, family: Family, exchange: Exchange) -> None:
        """Do one of them."""
        (scenario,) = random.choices(self._scenarios, cum_weights=self._weights)
        await scenario.perform(number, family, exchange)


@dataclass
class Conversation:
    """What a client says from its first word to its last: who are you, what have you got, and some calls of echo."""

    writer: Writer
    calls: int = 3

    async def perform(self, number: int, family: Family, exchange: Exchange) -> None:
        """Hold it; it ends with the first step that fails."""
        first = number * (self.calls + 2)
        session = ""
        if family is Family.MODERN:
            if await exchange(self.writer.request(family, first, "server/discover")) is None:
                return
        else:
            hello = {"protocolVersion": family.value, "capabilities": {}, "clientInfo": CLIENT}
            reply = await exchange(self.writer.request(family, first, "initialize", hello))
            if reply is None:
                return
            session = reply.session
            ready = self.writer.request(family, None, "notifications/initialized", session=session)
            if await exchange(ready) is None:
                return
        if await exchange(self.writer.request(family, first + 1, "tools/list", session=session)) is None:
            return
        for call in range(self.calls):
            text = f"conversation {number} {call}"
            if await exchange(echo(self.writer, family, first + 2 + call, text, session=session)) is None:
                return
