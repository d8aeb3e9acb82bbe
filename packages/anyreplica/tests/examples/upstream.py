"""The pack `examples.gateway`, and a fake HTTP API that records requests and sends the replies of a test."""

import asyncio
import ssl
from types import ModuleType
from typing import Any

import pytest
from fastmcp.exceptions import ToolError

TOKEN = 'secret"token/\\'


def response(body: bytes | str, *headers: str, status: str = "200 OK", length: int | None = None) -> bytes:
    """Return a response, whose body may be shorter than `length` announces."""
    content = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(content) if length is None else length}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + content


class Upstream:
    """A server that answers the n-th request with n, or sends `answer` and closes the connection.

    Attributes:
        asked: heads of the requests.
        answer: reply to each request; empty for the default.
        endless: bytes that the server sends repeatedly after a reply.
    """

    def __init__(self) -> None:
        self.host = ""
        self.asked: list[str] = []
        self.answer, self.endless = b"", b""

    @property
    def port(self) -> str:
        """The port of the server."""
        return self.host.rpartition(":")[2]

    async def start(self, tls: ssl.SSLContext | None = None) -> asyncio.Server:
        """Listen on a free port; the caller closes the returned server."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        self.host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while not writer.is_closing():
                self.asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
                writer.write(self.answer or response(str(len(self.asked)), "Set-Cookie: caller=one"))
                while self.endless:
                    await writer.drain()
                    writer.write(self.endless)
                    await asyncio.sleep(0.01)
                if self.answer:
                    writer.close()
        except (asyncio.IncompleteReadError, OSError):
            pass  # the client is gone
        finally:
            writer.close()


class Gateway:
    """The pack, the API that it may call, and another server that it must not call."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self.runner = runner
        self.upstream, self.elsewhere = Upstream(), Upstream()
        self.module: ModuleType

    @property
    def base(self) -> str:
        """The API's URL."""
        return f"http://{self.upstream.host}/v1"

    def get(self, path: str, *arguments: Any, answer: bytes = b"", endless: bytes = b"") -> Any:
        """Call the tool with a reply of the API, and return the tool's result.

        `upstream.asked` then has only the requests of this call.
        """
        self.upstream.asked.clear()
        self.upstream.answer, self.upstream.endless = answer, endless
        return self.runner.run(self.module.call_external_api(f"{self.base}/{path}", *arguments))

    def refusal(self, path: str, *arguments: Any, **answers: bytes) -> str:
        """Return the error that the tool gives its caller."""
        with pytest.raises(ToolError) as error:
            self.get(path, *arguments, **answers)
        return str(error.value)

    @property
    def target(self) -> str:
        """The target of the only request to the API."""
        (head,) = self.upstream.asked
        return head.split(" ")[1]
