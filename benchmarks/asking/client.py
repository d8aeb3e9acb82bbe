"""A client of the handshake protocol that answers each question at once.

It reads and writes HTTP/1.1 itself, so that the figures contain little CPU time of the client.
"""

import asyncio
import json
from typing import Any

from benchmarks.load import LoadError

_VERSION = "2025-11-25"
_ANSWER = {"action": "accept", "content": {"name": "Ada"}}


class _Connection:
    """One kept connection to a server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, port: int) -> "_Connection":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def send(self, message: dict[str, Any], session: str = "") -> tuple[int, dict[str, str]]:
        """Send a JSON-RPC message and return the status and the headers of the reply."""
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        head = (
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {_VERSION}\r\n"
            f"Content-Length: {len(body)}\r\n"
        )
        if session:
            head += f"Mcp-Session-Id: {session}\r\n"
        self.writer.write(head.encode() + b"\r\n" + body)
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
        return int(lines[0].split()[1]), headers

    async def rest(self, headers: dict[str, str]) -> bytes:
        """Read the body of a reply that is not an event stream."""
        return await self.reader.readexactly(int(headers.get("content-length", "0")))

    async def event(self) -> dict[str, Any]:
        """Return the next message of an event stream."""
        while True:
            line = await self.reader.readline()
            if not line:
                raise LoadError("the event stream ended before the result")
            if line.startswith(b"data: {"):
                message: dict[str, Any] = json.loads(line[6:])
                return message


async def answer_questions(asking: int, answering: int, times: int) -> list[float]:
    """Call the tool, answer its questions, and return how long the tool waited for each answer, in milliseconds.

    Args:
        asking: port of the server that runs the tool.
        answering: port of the server that gets the answers.
        times: number of questions.

    Raises:
        LoadError: a reply is wrong.
    """
    calls, answers = await _Connection.open(asking), await _Connection.open(answering)
    try:
        client = {"name": "benchmark", "version": "1"}
        hello = {"protocolVersion": _VERSION, "capabilities": {"elicitation": {}}, "clientInfo": client}
        status, headers = await calls.send({"id": 0, "method": "initialize", "params": hello})
        if status != 200 or "mcp-session-id" not in headers:
            raise LoadError(f"no session: HTTP {status}")
        session = headers["mcp-session-id"]
        if "content-length" in headers:
            await calls.rest(headers)
        else:
            await calls.event()
            await calls.reader.readuntil(b"0\r\n\r\n")
        status, headers = await calls.send({"method": "notifications/initialized"}, session)
        await calls.rest(headers)
        params = {"name": "ask", "arguments": {"times": times}}
        await calls.send({"id": 1, "method": "tools/call", "params": params}, session)
        while "result" not in (message := await calls.event()):
            if message.get("method") != "elicitation/create":
                raise LoadError(f"unexpected message: {message}")
            status, headers = await answers.send({"id": message["id"], "result": _ANSWER}, session)
            if status != 202:
                raise LoadError(f"the answer got HTTP {status}")
            await answers.rest(headers)
        took: list[float] = message["result"]["structuredContent"]["result"]
        if len(took) != times:
            raise LoadError(f"{len(took)} of {times} questions")
        return took
    finally:
        for connection in (calls, answers):
            connection.writer.close()
