"""A client of the handshake protocol that answers each question at once.

It reads and writes HTTP/1.1 itself, so that the figures contain little CPU time of the client.
"""

import asyncio
import json
from typing import Any

import httpx

from benchmarks.load import LoadError

_HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
_HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"elicitation": {}},
    "clientInfo": {"name": "benchmark", "version": "1"},
}
_ANSWER = {"action": "accept", "content": {"name": "Ada"}}


async def answer_questions(asking: int, answering: int, times: int) -> list[float]:
    """Call the tool, answer its questions, and return how long the tool waited for each answer, in milliseconds.

    Args:
        asking: port of the server that runs the tool.
        answering: port of the server that gets the answers.
        times: number of questions.

    Raises:
        LoadError: a reply is wrong.
    """
    url, hello = f"http://127.0.0.1:{asking}/mcp", {"method": "initialize", "params": _HELLO, "jsonrpc": "2.0", "id": 0}
    async with httpx.AsyncClient(headers=_HEADERS) as http:
        session = (await http.post(url, json=hello)).headers.get("mcp-session-id", "")
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await http.post(url, json=ready, headers={"Mcp-Session-Id": session})
    calls, answers = [await asyncio.open_connection("127.0.0.1", port) for port in (asking, answering)]
    try:
        params = {"name": "ask", "arguments": {"times": times}}
        await _post(*calls, session, id=1, method="tools/call", params=params)
        while "result" not in (message := await _event(calls[0])):
            if message.get("method") != "elicitation/create":
                raise LoadError(f"unexpected message: {message}")
            head = await _post(*answers, session, id=message["id"], result=_ANSWER)
            if b" 202 " not in head:
                raise LoadError(f"the answer got {head!r}")
        took: list[float] = message["result"]["structuredContent"]["result"]
        return took
    finally:
        calls[1].close()
        answers[1].close()


async def _post(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, session: str, **members: Any) -> bytes:
    """Send a JSON-RPC message and return the head of the reply, which has no body or an event stream."""
    body = json.dumps({"jsonrpc": "2.0", **members})
    headers = {**_HEADERS, "Host": "127.0.0.1", "Content-Type": "application/json", "Mcp-Session-Id": session}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"POST /mcp HTTP/1.1\r\n{lines}Content-Length: {len(body)}\r\n\r\n{body}".encode())
    return await reader.readuntil(b"\r\n\r\n")


async def _event(reader: asyncio.StreamReader) -> dict[str, Any]:
    """Return the next message of an event stream."""
    while line := await reader.readline():
        if line.startswith(b"data: {"):
            message: dict[str, Any] = json.loads(line[6:])
            return message
    raise LoadError("the event stream ended before the result")
