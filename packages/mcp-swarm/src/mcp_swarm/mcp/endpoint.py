"""The endpoint behind `/mcp`."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from starlette.types import Receive, Scope, Send

from mcp_swarm.audit.call import note_arguments
from mcp_swarm.http.access_lines import CALL, FAILED, FAULT, LONGEST
from mcp_swarm.http.admission import Admission
from mcp_swarm.http.body import Body
from mcp_swarm.http.headers import Headers, headers_of
from mcp_swarm.http.in_flight import UNAVAILABLE, InFlight
from mcp_swarm.http.json_replies import error_response, send_empty
from mcp_swarm.http.refusal import ClientGone, Refused, send_refusal
from mcp_swarm.mcp.call import Call
from mcp_swarm.mcp.message import Notification, Request, Response, called, called_tool, parse
from mcp_swarm.mcp.paths import Lanes
from mcp_swarm.mcp.protocol_version import check_envelope, check_param_headers, check_served, handshake_version
from mcp_swarm.mcp.stateless import drop_session_id
from mcp_swarm.ratelimit.limiter import Gate
from mcp_swarm.tracing.middleware import TRACE

_LISTEN = "subscriptions/listen"

_LONGEST_LISTEN = 64 * 1024
"""Bytes of a request for a subscription. It stays in memory as long as the subscription is open."""


class Exchange:
    """One request in, one reply out: read it once, check what its era asks of it, choose a lane.

    Args:
        admission: which requests are read at all.
        body: reads bodies.
        in_flight: limits how many messages are answered at the same time; subscriptions don't count.
        subscriptions: limits how many subscriptions are open.
        gate: holds each caller to its rate.
        streams: whether a reply may become an event stream, where the caller takes one.
    """

    lanes: Lanes
    """What answers; there as soon as the server has started."""

    def __init__(
        self,
        admission: Admission,
        body: Body,
        in_flight: InFlight,
        subscriptions: InFlight,
        gate: Gate | None,
        *,
        streams: bool,
    ) -> None:
        self.admission = admission
        self.body = body
        self.in_flight = in_flight
        self.subscriptions = subscriptions
        self.memory = body.memory
        self.gate = gate
        self.streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            headers = headers_of(scope)
            takes_stream = self.admission.known(scope, headers)
            if takes_stream is None:
                takes_stream = await self.admission.check(scope, receive)
            drop_session_id(scope, headers)
            message = await self._message(headers, receive)
            if TRACE in scope:
                scope[TRACE].read(getattr(message, "params", None))
            call = None
            if isinstance(message, Request):
                call = self._call(message, takes_stream, headers, scope, receive, send)
            bound = self.subscriptions if message.method == _LISTEN else self.in_flight
            bound.enter(message.id)
            leave = None
            try:
                if message.memory or self.gate is not None:
                    leave = await self._take(message, scope)
                await (self._acknowledge(message, headers, scope, send) if call is None else self.lanes.answer(call))
            except asyncio.CancelledError:  # SHUTDOWN_GRACE_SECONDS are over
                await _tell_of_the_end(call)
                raise
            finally:
                bound.leave()
                if leave is not None:
                    leave()
        except Refused as refused:
            await send_refusal(send, refused)
        except ClientGone:
            return

    async def _message(self, headers: Headers, receive: Receive) -> Request | Notification | Response:
        """Read a message. No reference to its body is kept: it may be large."""
        self.body.check(headers.get(b"content-length"))  # as `Body.read`, with one coroutine less
        part = await receive()
        return parse(self.body.whole(part) or await self.body.rest(part, receive))

    async def _take(self, message: Request | Notification | Response, scope: Scope) -> Callable[[], None]:
        """Count a message's memory, and the call against its caller's rate.

        Returns:
            A function that gives the memory back and ends the call for the rate. Call it when the message is answered.

        Raises:
            Refused: 503 or 429.
        """
        memory = message.memory
        self.memory.take(memory, message.id)
        try:
            leave = await self.gate.enter(scope, called_tool(message), message.id) if self.gate is not None else None
        except BaseException:
            self.memory.give(memory)
            raise

        def give_back() -> None:
            self.memory.give(memory)
            if leave is not None:
                leave()

        return give_back

    def _call(
        self, request: Request, takes_stream: bool, headers: Headers, scope: Scope, receive: Receive, send: Send
    ) -> Call:
        """Check a request as its era wants it.

        Raises:
            Refused: it breaks a rule of its era.
        """
        method = request.method
        scope[CALL] = called(request)
        note_arguments(scope, request.params)
        version = handshake_version(headers)
        if version is not None:
            return Call(request, version, False, scope, receive, send, takes_stream and self.streams)
        listens = method == _LISTEN  # whose reply is an event stream in any case
        if listens and request.size > _LONGEST_LISTEN:
            raise Refused(413, f"A subscription has at most {_LONGEST_LISTEN} bytes.", identity=request.id)
        if listens and not takes_stream:
            raise Refused(406, "Accept text/event-stream: a subscription is one.", identity=request.id)
        version = check_envelope(request, headers)
        if method == "tools/call" and self.lanes.plans.annotated:
            check_param_headers(request, scope, self.lanes.plans.annotated)
        return Call(request, version, True, scope, receive, send, takes_stream and (self.streams or listens))

    async def _acknowledge(
        self, message: Request | Notification | Response, headers: Headers, scope: Scope, send: Send
    ) -> None:
        """Answer a notification or a response with an empty 202.

        In the stateless era no notification of a client needs an action of this server: a caller cancels a call by
        closing its connection. In the handshake era middleware sees the notifications.

        Raises:
            Refused: a response in the stateless era, because the server sends no requests in that era.
        """
        version = handshake_version(headers)
        if version is None:
            if isinstance(message, Response):
                raise Refused(400, "The body must be a single JSON-RPC 2.0 request or notification.")
            check_served(headers)
        if not isinstance(message, Notification):
            await send_empty(send, 202)
            return
        scope[CALL] = (message.method[:LONGEST], "")
        await send_empty(send, 202)
        if version is not None:
            await self.lanes.full.observe(message, version, scope)


async def _tell_of_the_end(call: Call | None) -> None:
    """Answer a call that is cancelled because the replica stops."""
    if call is None:
        return
    call.scope[FAILED] = FAULT
    identity, text = call.request.id, "The server is stopping and cancelled the call; retry now."
    with suppress(RuntimeError):  # it was just being answered
        if call.reply.streaming:
            await call.finish(503, error_response(identity, UNAVAILABLE, text))
        else:
            refused = Refused(503, text, code=UNAVAILABLE, identity=identity, headers={"Retry-After": "1"})
            await send_refusal(call.send, refused)
