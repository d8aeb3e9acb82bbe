"""The endpoint where the settings ask for the SDK's own behaviour: event streams always, or sessions."""

import asyncio

from sse_starlette.sse import AppStatus
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_swarm.audit.call import note_arguments
from mcp_swarm.http.access_lines import CALL, FAILED, RPC_ERROR, TOOL_ERROR, WAY
from mcp_swarm.http.admission import Admission
from mcp_swarm.http.body import Body, replay
from mcp_swarm.http.headers import headers_of
from mcp_swarm.http.in_flight import InFlight
from mcp_swarm.http.refusal import ClientGone, Refused, send_refusal
from mcp_swarm.mcp.message import Request, called, called_tool, parse
from mcp_swarm.mcp.protocol_version import handshake_version
from mcp_swarm.mcp.stateless import drop_session_id
from mcp_swarm.ratelimit.limiter import Gate
from mcp_swarm.tracing.middleware import TRACE


class Delegate:
    """Refuse what the SDK gets wrong, note what is asked for, and let FastMCP's app answer.

    Args:
        app: FastMCP's.
        admission: which requests are read at all.
        body: reads bodies.
        in_flight: bounds the messages that are answered at once.
        subscriptions: bounds the streams that clients open to listen.
        gate: bounds each caller's.
        stateless: whether it keeps no sessions.
    """

    def __init__(
        self,
        app: ASGIApp,
        admission: Admission,
        body: Body,
        in_flight: InFlight,
        subscriptions: InFlight,
        gate: Gate | None,
        *,
        stateless: bool,
    ) -> None:
        self.app = app
        self.admission = admission
        self.body = body
        self.in_flight = in_flight
        self.subscriptions = subscriptions
        self.gate = gate
        self.stateless = stateless
        self._stopping = asyncio.Event()
        # It would cut the event streams of calls in flight at SIGTERM.
        AppStatus.disable_automatic_graceful_drain()  # type: ignore[no-untyped-call]

    def stop(self) -> None:
        """End what clients listen to without end: the streams of their sessions."""
        self._stopping.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._serve(scope, receive, send)
        except Refused as refused:
            await send_refusal(send, refused)
        except ClientGone:
            return

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["path"] = "/mcp"  # FastMCP's route; a trailing slash is what many clients' configurations have
        if self.admission.known(scope, headers_of(scope)) is None:
            await self.admission.check(scope, receive)
        if self.stateless:
            drop_session_id(scope, headers_of(scope))
        if scope["method"] != "POST":
            self.subscriptions.enter(None)
            try:
                await self._listen(scope, receive, send)
            finally:
                self.subscriptions.leave()
            return
        body = await self.body.read(receive, headers_of(scope).get(b"content-length"))
        message = parse(body)
        if TRACE in scope:
            scope[TRACE].read(getattr(message, "params", None))
        if isinstance(message, Request):
            scope[CALL] = called(message)
            scope[WAY] = ("stateless" if handshake_version(headers_of(scope)) is None else "handshake", "sdk")
            note_arguments(scope, message.params)
        self.in_flight.enter(message.id)
        leave = None
        try:
            if self.gate is not None:
                leave = await self.gate.enter(scope, called_tool(message), message.id)
            await self._pass_on(scope, replay(body, receive), send)
        finally:
            self.in_flight.leave()
            if leave is not None:
                leave()

    async def _listen(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a client listen until the replica stops; the stream ends properly then."""
        open_ = False

        async def send_noting_end(part: Message) -> None:
            nonlocal open_
            open_ = part["type"] == "http.response.start" or part.get("more_body", False)
            await send(part)

        async def receive_until_stopped() -> Message:
            message = asyncio.ensure_future(receive())
            stop = asyncio.ensure_future(self._stopping.wait())
            try:
                await asyncio.wait((message, stop), return_when=asyncio.FIRST_COMPLETED)
                return message.result() if message.done() else {"type": "http.disconnect"}
            finally:
                message.cancel()
                stop.cancel()

        await self.app(scope, receive_until_stopped, send_noting_end)
        if open_ and self._stopping.is_set():
            await send({"type": "http.response.body", "body": b""})

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_noting_failure(part: Message) -> None:
            if part["type"] == "http.response.body" and (failed := _failed(part.get("body", b""))):
                scope[FAILED] = failed
            await send(part)

        await self.app(scope, receive, send_noting_failure)


def _failed(body: bytes) -> str:
    """Whose error a reply tells of, if any.

    Quotes within a JSON string are escaped, so no text matches; a structured result with such a key would.
    """
    if b'"isError":true' in body:
        return TOOL_ERROR
    return RPC_ERROR if b'"error":{"code":' in body else ""
