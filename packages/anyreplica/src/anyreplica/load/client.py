"""The clients: each has one connection and sends one request after the other, by itself or with the MCP SDK."""

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any

import httpx2
import orjson
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent

from anyreplica.load.connection import Connection, ConnectionEnded, HttpReply
from anyreplica.load.message import Family, SentRequest
from anyreplica.load.run import LoadRun
from anyreplica.signing.httpx_auth import Signed

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

_SDK_NAME = "tools/call echo (SDK)"

_MODES = {Family.LEGACY: "legacy", Family.MODERN: Family.MODERN.value}


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
        started = run.now if due is None else due
        connection = self.connection
        if connection is None or not connection.open:
            try:
                connection = await self._connect()
            except (OSError, TimeoutError) as error:
                self._note(started, request, _why(error), str(error), "")
                await asyncio.sleep(REFUSED_PAUSE)
                return None
        try:
            reply = await connection.send(request.payload)
        except ConnectionEnded as error:
            self._note(started, request, str(error), "", "")
            return None
        failure = judge(request, reply)
        if failure is None:
            run.samples.add(started, run.now, "", reply.replica, request.name, self._number)
        else:
            self._note(started, request, *failure, reply.replica)
        policy = run.load.policy
        if policy != "keepalive" and (policy == "fresh" or connection.requests >= policy):
            self.close()
        return None if failure else reply

    def close(self) -> None:
        """Close the connection."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def _note(self, started: float, request: SentRequest, kind: str, example: str, replica: str) -> None:
        run = self._run
        run.samples.examples.setdefault(kind, example)
        run.samples.add(started, run.now, kind, replica, request.name, self._number)

    async def _connect(self) -> Connection:
        run, target = self._run, self._run.load.target
        self.connection = None
        self._number = 0
        started = run.now
        number = next(run.connection_numbers)
        address = run.load.addresses[number % len(run.load.addresses)]
        loop = asyncio.get_running_loop()
        name = target.host if target.tls else None
        async with asyncio.timeout(run.load.patience):
            _, connection = await loop.create_connection(
                Connection, address, target.port, ssl=target.tls, server_hostname=name
            )
        run.connects.append(run.now - started)
        self.connection, self._number = connection, number
        return connection


class SdkClient:
    """A client that connects with the MCP SDK and calls echo repeatedly.

    Args:
        run: The run that this client belongs to.
        headers: Headers of each request, in addition to those of the SDK.
        auth: Signs each request; None: the requests are not signed.
    """

    connection = None
    """Always None: the SDK's client manages its connections."""

    def __init__(self, run: LoadRun, headers: Mapping[str, str], auth: Signed | None = None) -> None:
        self._run = run
        self._headers = dict(headers)
        self._auth = auth
        self._number = next(run.connection_numbers)
        self._family = run.load.families[self._number % len(run.load.families)]
        self._replica = ""

    async def work(self) -> None:
        """Send requests until the run is over.

        An error that breaks the SDK's client counts as a failure. Then this method makes a new SDK client.
        """
        run = self._run
        while not run.over:
            started = run.now
            http = httpx2.AsyncClient(
                headers=self._headers,
                auth=self._auth,
                event_hooks={"response": [self._note]},
                timeout=run.load.patience,
            )
            try:
                async with http:
                    transport = streamable_http_client(run.load.target.url, http_client=http)
                    async with Client(transport, mode=_MODES[self._family], cache=None) as client:
                        run.connects.append(run.now - started)
                        await self._calls(client)
            except Exception as error:  # noqa: BLE001  # The SDK's tasks raise groups of arbitrary exceptions.
                self._failed(started, error)
                await asyncio.sleep(REFUSED_PAUSE)

    def close(self) -> None:
        """Do nothing: `work` closes its client itself."""

    async def _calls(self, client: Client) -> None:
        run = self._run
        async for number, due in run.turns():
            started = run.now if due is None else due
            text = f"load {number}"
            try:
                async with asyncio.timeout(run.load.patience):
                    result = await client.call_tool("echo", {"message": text})
            except (MCPError, TimeoutError, httpx2.HTTPError) as error:
                self._failed(started, error)
                continue
            block = result.content[0] if result.content else None
            right = isinstance(block, TextContent) and block.text == text and not result.is_error
            run.samples.add(started, run.now, "" if right else "wrong text", self._replica, _SDK_NAME, self._number)

    async def _note(self, response: httpx2.Response) -> None:
        self._replica = response.headers.get("X-Served-By", "")

    def _failed(self, started: float, error: BaseException) -> None:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        kind = f"SDK: {type(error).__name__}"
        self._run.samples.examples.setdefault(kind, str(error))
        self._run.samples.add(started, self._run.now, kind, "", _SDK_NAME, self._number)


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
