"""A fake MCP server with real connections, and with latencies, stalls and faults that a test defines."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

Answer = Callable[["Fake", int, dict[str, Any]], Awaitable[bytes]]
"""A function that returns the response to the n-th request (from 1); empty: close the connection."""


def http(body: Any, status: str = "200 OK", **headers: str) -> bytes:
    """Return a response."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(content)}\r\n{lines}\r\n".encode() + content


def echoed(message: dict[str, Any], **headers: str) -> bytes:
    """Return the right reply to a call of echo, and an empty result for any other message."""
    text = message.get("params", {}).get("arguments", {}).get("message")
    result = {} if text is None else {"content": [{"type": "text", "text": text}], "isError": False}
    return http({"jsonrpc": "2.0", "id": message.get("id"), "result": result}, **{"X_Served_By": "fake", **headers})


async def echo(_: "Fake", __: int, message: dict[str, Any]) -> bytes:
    """Reply correctly and at once."""
    return echoed(message)


@dataclass
class Fake:
    """The server, and the requests that it has received."""

    answer: Answer = echo
    port: int = 0
    connections: int = 0
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    heads: list[bytes] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)

    @property
    def url(self) -> str:
        """The URL of the endpoint."""
        return f"http://127.0.0.1:{self.port}/mcp"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection."""
        self.writers.append(writer)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.connections += 1  # connections without a request do not count
            while True:
                fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
                message = json.loads(await reader.readexactly(int(fields[b"Content-Length"])))
                self.heads.append(head)
                self.messages.append(message)
                answer = await self.answer(self, len(self.messages), message)
                if not answer:
                    break
                writer.write(answer)
                head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


@asynccontextmanager
async def fake(answer: Answer = echo) -> AsyncIterator[Fake]:
    """Run a server with these answers."""
    server = Fake(answer)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for writer in server.writers:  # otherwise the connections would outlive their event loop
            writer.transport.abort()
        for _ in range(3):
            await asyncio.sleep(0)
