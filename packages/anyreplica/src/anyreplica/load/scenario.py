"""The scenarios that clients perform: one request, a mix of requests, or a whole conversation."""

import random
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

from anyreplica.load.connection import HttpReply
from anyreplica.load.fields import maker
from anyreplica.load.message import CLIENT, Family, SentRequest, Writer

Exchange = Callable[[SentRequest], Awaitable[HttpReply | None]]
"""A function that sends a request and records the result; it returns the reply of a success, otherwise None."""


class Scenario(Protocol):
    """A sequence of requests that a client performs repeatedly."""

    async def perform(self, number: int, family: Family, exchange: Exchange) -> None:
        """Perform the scenario once; each call gets a different `number`."""


class Single:
    """A single request.

    Args:
        writer: Writes the request.
        method: The JSON-RPC method.
        params: The params; they may have placeholders (`load.fields`).

    Raises:
        ValueError: A placeholder is invalid.
    """

    def __init__(self, writer: Writer, method: str, params: Mapping[str, Any]) -> None:
        self._writer = writer
        self._method = method
        self._params = params
        self._make = maker(params)

    async def perform(self, number: int, family: Family, exchange: Exchange) -> None:
        """Send the request."""
        params = self._make(number) if self._make else self._params
        await exchange(self._writer.request(family, number, self._method, params))


class Echo:
    """A call of the tool `echo` with a unique text; the reply must have the same text."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._run = secrets.token_hex(3)

    async def perform(self, number: int, family: Family, exchange: Exchange) -> None:
        """Send the request."""
        await exchange(echo(self._writer, family, number, f"load {self._run} {number}"))


def echo(writer: Writer, family: Family, identity: int, text: str, *, session: str = "") -> SentRequest:
    """Return a call of the tool `echo`; the expected result is the same text."""
    params = {"name": "echo", "arguments": {"message": text}}
    return writer.request(family, identity, "tools/call", params, text=text, session=session)


class Mix:
    """A random choice between several scenarios, in proportion to their weights.

    Raises:
        ValueError: No weight is above 0.
    """

    def __init__(self, weighted: Sequence[tuple[float, Scenario]]) -> None:
        self._scenarios = [scenario for _, scenario in weighted]
        self._weights = list(accumulate(weight for weight, _ in weighted))
        if not self._weights or self._weights[-1] <= 0:
            raise ValueError("A mix needs at least one entry with a weight above 0.")

    async def perform(self, number: int, family: Family, exchange: Exchange) -> None:
        """Perform one of the scenarios."""
        (scenario,) = random.choices(self._scenarios, cum_weights=self._weights)
        await scenario.perform(number, family, exchange)


@dataclass
class Conversation:
    """All requests of a client's life: server/discover or initialize, tools/list, and some calls of echo."""

    writer: Writer
    calls: int = 3

    async def perform(self, number: int, family: Family, exchange: Exchange) -> None:
        """Send the requests in order; the first failure ends the conversation."""
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
