"""HTTP/1.1 as uvicorn speaks it, with this server's manners."""

import asyncio
import functools
import secrets
from typing import TYPE_CHECKING, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from server import config, eager
from server.http1.cycle import Cycle
from server.http1.turn import turn_of
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
        self._turn = turn_of(self.loop)
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

    def data_received(self, data: bytes) -> None:
        """Take data; it is parsed together with what other connections received."""
        self._turn.receive(self, data)

    def feed(self, data: bytes) -> None:
        """Parse data."""
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection, after what it sent before."""
        self._turn.run()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close the connection when it has been answered; with what it sent before."""
        self._turn.run()
        super().shutdown()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: "ASGI3Application") -> None:
        self._idle_since = None
        cycle.__class__ = Cycle  # uvicorn makes its own
        cast("Cycle", cycle).turn = self._turn
        self._turn.start(self, cycle, app)

    def answer(self, cycle: RequestResponseCycle, app: "ASGI3Application") -> None:
        """Run the app for a request."""
        task = eager.start(cycle.run_asgi(app), self.loop)
        if not task.done():
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
        self._turn.flush()
        self.transport.write("\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + body)
        self.transport.close()
