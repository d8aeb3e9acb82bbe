"""The calls of lost replicas that this replica takes over."""

import asyncio
from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anyreplica.features.sessions.channel import SessionChannel
from anyreplica.features.sessions.event_log import AdoptedCall
from anyreplica.features.sessions.reply import SessionReply
from anyreplica.features.sessions.sessions import Sessions
from anyreplica.http.refusal import ClientGone, Refused
from anyreplica.http.request_limits import RequestLimits
from anyreplica.http.request_record import RECORD, RPC_ERROR, RequestRecord, headers_of, record_of
from anyreplica.http.responses import PING_SECONDS, encode, error_response
from anyreplica.mcp.call import Call
from anyreplica.mcp.message import Request, called, memory_of

_TAKEN = "sessions.taken"
"""The note of a request about the call that this replica has taken over."""


class AdoptedCalls:
    """Continues with calls of lost replicas. Their events go to the log, where the client's resumed stream reads them.

    Args:
        limits: the counters of requests in flight and of their memory.
        answer: answers a call on the FastMCP path.
        logged: puts the access log around an app.
    """

    def __init__(
        self,
        sessions: Sessions,
        limits: RequestLimits,
        answer: Callable[[Call], Awaitable[None]],
        logged: Callable[[ASGIApp], ASGIApp],
    ) -> None:
        self._logged = logged
        self._sessions = sessions
        self._limits = limits
        self._answer = answer

    def start(self, scope: Scope, taken: AdoptedCall) -> None:
        """Start a task that continues with a call.

        Args:
            scope: the scope of the request with which the client resumes the call. The call gets the caller and the
                headers of this request.
        """
        asked, record = record_of(scope), RequestRecord(headers_of(scope))
        record.caller, record.notes = asked.caller, {**(asked.notes or {}), _TAKEN: taken}
        task = asyncio.create_task(self._run({**scope, "method": "POST", RECORD: record}))
        self._sessions.taken.add(task)
        task.add_done_callback(self._sessions.taken.discard)

    async def _run(self, scope: Scope) -> None:
        await self._logged(self)(scope, _nothing_arrives, _send_nothing)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Continue with the call in the scope."""
        record = record_of(scope)
        taken: AdoptedCall = (record.notes or {}).pop(_TAKEN)
        found = taken.round
        body = encode(found.params)
        request = Request(taken.identity, found.method, found.params, len(body), memory_of(body))
        record.called = called(request)
        for observe in self._limits.on_call:
            observe(scope, found.params)
        channel = SessionChannel(self._sessions, headers_of(scope)[b"mcp-session-id"], found.version)
        reply = SessionReply(scope, receive, send, True, PING_SECONDS, request, channel)
        reply.take_over(taken)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        limits = self._limits
        limits.in_flight.acquire_beyond()  # the call waits for its client first
        limits.memory.acquire_beyond(request.memory)
        try:
            await self._answer(Call(request, found.version, False, scope, record_of(scope), reply, channel))
        except ClientGone:
            return
        except Refused as refused:
            record.failed = RPC_ERROR
            await reply.finish(refused.status, error_response(request.id, refused.code, refused.message))
        except asyncio.CancelledError:
            await reply.stop(request.id)
            raise
        finally:
            limits.in_flight.release()
            limits.memory.release(request.memory)


async def _nothing_arrives() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


async def _send_nothing(message: Message) -> None:
    """Drop a part of a reply: the client of the call has no connection to this call."""
