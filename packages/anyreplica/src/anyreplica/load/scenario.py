"""The scenarios that clients perform, and the placeholders in their arguments."""

import random
import re
import secrets
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

from anyreplica.load.connection import HttpReply
from anyreplica.load.message import CLIENT, Family, SentRequest, Writer

_FIELD = re.compile(r"\{(i|uuid|random|choice)(?::([^{}]*))?\}")
_RANGE = re.compile(r"(-?\d+)-(-?\d+)")

Maker = Callable[[int], Any]
"""A function that takes the number of a call and returns the value for that call."""

FIELDS_HELP = """\
  {i}             number of the request
  {random:1-100}  random whole number from 1 to 100
  {choice:a|b|c}  one of the values a, b, c
  {uuid}          random UUID"""


def maker(value: Any) -> Maker | None:
    """Return a function that fills the placeholders in a JSON value; None if the value has no placeholder.

    A string that consists of one numeric placeholder becomes a number: `"{i}"` gives 17. `"call {i}"` gives a string.

    Raises:
        ValueError: A placeholder is invalid.
    """
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        made = {key: maker(part) for key, part in value.items()}
        if not any(made.values()):
            return None
        return lambda number: {key: (make(number) if (make := made[key]) else part) for key, part in value.items()}
    if isinstance(value, list):
        items = [(maker(part), part) for part in value]
        if not any(make for make, _ in items):
            return None
        return lambda number: [make(number) if make else part for make, part in items]
    return None


def _text(text: str) -> Maker | None:
    found = list(_FIELD.finditer(text))
    if not found:
        return None
    makers = [_field(match[1], match[2] or "") for match in found]
    if found[0].span() == (0, len(text)):
        return makers[0]
    between = _FIELD.split(text)[::3]

    def make(number: int) -> str:
        filled = [part for pair in zip(between, (str(one(number)) for one in makers), strict=False) for part in pair]
        return "".join([*filled, between[-1]])

    return make


def _field(kind: str, argument: str) -> Maker:
    if kind == "i":
        return lambda number: number
    if kind == "uuid":
        return lambda _: str(uuid.uuid4())
    if kind == "choice":
        choices = argument.split("|")
        return lambda _: random.choice(choices)
    bounds = _RANGE.fullmatch(argument or "0-999999")
    if bounds is None or int(bounds[1]) > int(bounds[2]):
        raise ValueError(f"{{random:{argument}}} needs two whole numbers, the smaller number first: {{random:1-100}}")
    low, high = int(bounds[1]), int(bounds[2])
    return lambda _: random.randint(low, high)


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
        params: The params; they may have placeholders.

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
