"""A client: it has one connection and sends one request after the other."""

import asyncio
import ssl
from typing import Any

import orjson

from anyreplica.load.connection import Connection, ConnectionEnded, HttpReply
from anyreplica.load.message import SentRequest
from anyreplica.load.run import LoadRun

_EXAMPLE = 200
"""Maximum length of a failure's example, in characters."""

_HINTS = {
    401: "HTTP 401 (give --token or set MCP_TOKEN)",
    404: "HTTP 404 (check the path of --url; it is usually /mcp)",
    429: "HTTP 429 too many requests",
    503: "HTTP 503 unavailable",
}

Failure = tuple[str, str]
"""The kind of failure, and an example with the beginning of the response."""

REFUSED_PAUSE = 0.1
"""Seconds that a client waits after a failed connection.

Without the pause, one restart of the server would count as a million failures.
"""


def judge(request: SentRequest, reply: HttpReply) -> Failure | None:
    """Return None for a success: HTTP 2xx, no JSON-RPC error, no tool error, the right id and the right text.

    Return the failure otherwise. A notification (no id) needs only HTTP 2xx.
    """
    if not 200 <= reply.status < 300:
        after = f"; Retry-After: {reply.retry_after}" if reply.retry_after else ""
        return _HINTS.get(reply.status, f"HTTP {reply.status}"), f"{_short(reply.body)}{after}"
    if request.identity is None:
        return None
    try:
        message = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        message = _last_event(reply.body, request.identity)
    if type(message) is not dict or message.get("id") != request.identity:
        return "not a JSON-RPC response to this request", _short(reply.body)
    result = message.get("result")
    if type(result) is not dict:
        error = message.get("error")
        code = error.get("code", "") if isinstance(error, dict) else ""
        return f"JSON-RPC error {code}".rstrip(), _short(reply.body)
    if result.get("isError"):
        return "tool error", _short(reply.body)
    if request.text is not None and _text(result) != request.text:
        return "wrong text", f"expected {request.text!r}, got {_short(reply.body)}"
    return None


def _text(result: dict[str, Any]) -> Any:
    try:
        return result["content"][0]["text"]
    except (LookupError, TypeError):
        return None


def _last_event(body: bytes, identity: int) -> Any:
    """Return the last message with this id in an event stream; None if the stream has no such message."""
    for line in reversed(body.splitlines()):
        if line.startswith(b"data:"):
            try:
                message = orjson.loads(line[5:])
            except orjson.JSONDecodeError:
                continue
            if isinstance(message, dict) and message.get("id") == identity:
                return message
    return None


def _short(body: bytes) -> str:
    text = " ".join(body.decode(errors="replace").split())
    return text if len(text) <= _EXAMPLE else f"{text[:_EXAMPLE]}…"


class LoadClient:
    """A client that sends requests over its own connection and records the results."""

    def __init__(self, run: LoadRun) -> None:
        self.connection: Connection | None = None
        self._run = run
        self._number = 0
        self._due: float | None = None

    async def work(self) -> None:
        """Send requests until the run is over."""
        load = self._run.load
        async for number, due in self._run.turns():
            self._due = due
            await load.scenario.perform(number, load.families[number % len(load.families)], self.exchange)

    async def exchange(self, request: SentRequest) -> HttpReply | None:
        """Send a request and record its result; return the reply of a success, otherwise None."""
        run, due = self._run, self._due
        self._due = None
        begun = run.now if due is None else due
        connection = self.connection
        if connection is None or not connection.open:
            try:
                connection = await self._connect()
            except (OSError, TimeoutError) as error:
                self._note(begun, request, _why(error), str(error), "")
                await asyncio.sleep(REFUSED_PAUSE)
                return None
        try:
            reply = await connection.send(request.payload)
        except ConnectionEnded as error:
            self._note(begun, request, str(error), "", "")
            return None
        failure = judge(request, reply)
        if failure is None:
            run.samples.add(begun, run.now, "", reply.replica, request.name, self._number)
        else:
            self._note(begun, request, *failure, reply.replica)
        policy = run.load.policy
        if policy != "keepalive" and (policy == "fresh" or connection.requests >= policy):
            self.close()
        return None if failure else reply

    def close(self) -> None:
        """Close the connection."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def _note(self, begun: float, request: SentRequest, kind: str, example: str, replica: str) -> None:
        run = self._run
        run.samples.examples.setdefault(kind, example)
        run.samples.add(begun, run.now, kind, replica, request.name, self._number)

    async def _connect(self) -> Connection:
        run, target = self._run, self._run.load.target
        self.connection = None
        self._number = 0
        begun = run.now
        number = next(run.connection_numbers)
        address = run.load.addresses[number % len(run.load.addresses)]
        loop = asyncio.get_running_loop()
        name = target.host if target.tls else None
        async with asyncio.timeout(run.load.patience):
            _, connection = await loop.create_connection(
                Connection, address, target.port, ssl=target.tls, server_hostname=name
            )
        run.connects.append(run.now - begun)
        self.connection, self._number = connection, number
        return connection


def _why(error: OSError) -> str:
    """Return the kind of failure for an error while connecting."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, ConnectionResetError):
        return "connection reset"
    if isinstance(error, TimeoutError):
        return "connect timeout"
    if isinstance(error, ssl.SSLError):
        return "TLS error"
    return "connection failed"
