"""HTTP/1.1 as uvicorn speaks it, with this server's manners and a shorter way for the common reply."""

import asyncio
import functools
import secrets
from typing import TYPE_CHECKING, Any, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from server import config
from server.replica import name_of

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application

_SWEEP_SECONDS = 1.0


@functools.cache
def _replica() -> str:
    return name_of(config.load())


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with one look a second at all idle connections instead of a timer for each request.

    That look also ends connections that never send a request, or never finish its head. The answer to what isn't
    HTTP has the headers of every other response.
    """

    _idle_since: float | None = None
    """Time of the loop at which this connection began to wait for a request; None while it serves one."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection."""
        super().connection_made(transport)
        self._idle_since = self.loop.time()
        if len(self.connections) == 1:
            self.loop.call_later(_SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        """Close the connections that have been idle for too long, as long as there are any connections."""
        late = self.loop.time() - self.timeout_keep_alive
        for connection in cast("set[HttpProtocol]", set(self.connections)):
            if connection._idle_since is not None and connection._idle_since < late:  # noqa: SLF001  # of this class
                connection.timeout_keep_alive_handler()
        if self.connections:
            self.loop.call_later(_SWEEP_SECONDS, self._sweep)

    def _unset_keepalive_if_required(self) -> None:
        """There is no timer to cancel."""

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: "ASGI3Application") -> None:
        """Run the app for a request; past the loop's task factory, which is for the tasks of components."""
        self._idle_since = None
        cycle.__class__ = Cycle  # uvicorn makes its own
        task = asyncio.Task(cycle.run_asgi(app), loop=self.loop)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def on_response_complete(self) -> None:
        """Go on with a pipelined request, or wait for the next."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._idle_since = self.loop.time()

    def send_400_response(self, msg: str) -> None:
        """Say 400 and close the connection; uvicorn has logged a warning."""
        body = f"{msg}\n".encode()
        head = (
            "HTTP/1.1 400 Bad Request",
            f"x-served-by: {_replica()}",
            f"x-request-id: {secrets.token_hex(4)}",
            "content-type: text/plain; charset=utf-8",
            f"content-length: {len(body)}",
            "connection: close",
        )
        self.transport.write("\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + body)
        self.transport.close()


class Cycle(RequestResponseCycle):
    """uvicorn's exchange of one request and its response, which writes a whole response at once if it can.

    uvicorn looks at each header with two regular expressions and writes head and body one by one. A response of a
    known length keeps its head until the body is there; if that is all of it, both go out together. Any other takes
    uvicorn's way.
    """

    _head: Any = None
    """The message that began a response, while it waits for its body."""

    async def send(self, message: Any) -> None:
        """Take an ASGI message."""
        head = self._head
        if head is None:
            if message["type"] == "http.response.start" and self._is_plain() and _announces_length(message):
                self._head = message
            else:
                await super().send(message)
            return
        self._head = None
        written = _whole(self.default_headers, head, message)
        if written is None or self.flow.write_paused or self.disconnected or not self._is_plain():
            await super().send(head)
            await super().send(message)
            return
        self.response_started = self.response_complete = True
        self.waiting_for_100_continue = False
        self.transport.write(written)
        self.message_event.set()
        self.on_response()

    async def receive(self) -> Any:
        """Give the next ASGI message; a body that is all there without uvicorn's waiting for it."""
        if self.more_body or not self.message_event.is_set() or self.disconnected or self.response_complete:
            return await super().receive()
        self.message_event.clear()
        self.flow.resume_reading()
        body, self.body = self.body, bytearray()
        return {"type": "http.request", "body": bytes(body), "more_body": False}

    def _is_plain(self) -> bool:
        return not self.response_started and self.keep_alive and self.scope["method"] != "HEAD"


def _announces_length(head: Any) -> bool:
    """Whether a response's length is known; the head of an event stream must not wait for its first event."""
    return any(name == b"content-length" for name, _ in head["headers"])


def _whole(defaults: list[tuple[bytes, bytes]], head: Any, body: Any) -> bytes | None:
    """A response's bytes; None unless it is all there, of the length that it announces."""
    content: bytes = body.get("body", b"")
    headers = head["headers"]
    fields = dict(headers)
    if (
        body.get("more_body", False)
        or fields.get(b"content-length") != b"%d" % len(content)
        or b"connection" in fields
        or b"transfer-encoding" in fields
    ):
        return None
    lines = [name + b": " + value for name, value in headers]
    lines += [name + b": " + value for name, value in defaults]
    written = STATUS_LINE[head["status"]] + b"\r\n".join(lines) + b"\r\n\r\n"
    # A header with a line break in it would begin another; uvicorn refuses it.
    whole = len(lines) + 2
    return written + content if written.count(b"\n") == whole == written.count(b"\r") else None
