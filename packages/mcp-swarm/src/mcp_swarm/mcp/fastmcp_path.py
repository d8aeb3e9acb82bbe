"""The full lane: FastMCP through the SDK's one-request driver, for whatever no plan expresses."""

import logging
from typing import Any

from fastmcp import FastMCP
from fastmcp.server.context import set_transport
from fastmcp.server.http import set_http_request
from mcp import MCPError
from mcp.server.connection import Connection
from mcp.server.runner import ServerRunner, aclose_shielded, modern_error_data
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS
from mcp_types import INTERNAL_ERROR
from starlette.types import Message, Scope

from mcp_swarm.components.outcome import BODY, CALL, Handover, forget_frames
from mcp_swarm.http.access_lines import FAILED, FAULT, RPC_ERROR, TOOL_ERROR, WAY
from mcp_swarm.http.json_replies import error_response, response
from mcp_swarm.mcp import _sdk
from mcp_swarm.mcp.call import Call
from mcp_swarm.mcp.call_span import within
from mcp_swarm.mcp.dispatch import Dispatch
from mcp_swarm.mcp.message import Notification
from mcp_swarm.mcp.reply import Reply
from mcp_swarm.mcp.wait_for_call import watch
from mcp_swarm.process import task_exits

logger = logging.getLogger(__name__)

_HANDSHAKE, _STATELESS = ("handshake", "full"), ("stateless", "full")


class FullLane:
    """Answers any request of either era.

    Args:
        state: what the server's lifespan gave.
    """

    def __init__(self, mcp: FastMCP, state: Any) -> None:
        self.mcp = mcp
        self.state = state
        self.server = _sdk.low_level(mcp)

    async def answer(self, call: Call, handed: Handover = Handover()) -> None:  # noqa: B008  # frozen
        """Answer a request.

        Args:
            handed: what the fast lane has done of it.

        Raises:
            ClientGone: the caller closed the connection, and the call was cancelled.
        """
        call.scope[WAY] = _STATELESS if call.modern else _HANDSHAKE
        task = task_exits.start(self._serve(call, handed))
        await watch(task, call.receive, call.reply)
        if task.cancelled():  # a middleware raised CancelledError, although nobody cancelled it
            logger.error("The task that served %s was cancelled from within", call.request.method)
            call.scope[FAILED] = FAULT
            status, message = 200, error_response(call.request.id, INTERNAL_ERROR, "Internal server error")
        else:
            status, message = task.result()
        await call.finish(status, message)

    async def _serve(self, call: Call, handed: Handover) -> tuple[int, bytes]:
        """The reply to a request: HTTP status and JSON-RPC response.

        Whatever goes wrong becomes an error response that says no more than the caller may know.
        """
        request = call.request
        try:
            result = await self.result(call, handed)
            if result.get("isError") is True:
                call.scope[FAILED] = TOOL_ERROR
            return 200, response(request.id, result)
        except Exception as error:  # noqa: BLE001  # logged there, and told in general terms
            data = modern_error_data(error)
            call.scope[FAILED] = FAULT if data.code == INTERNAL_ERROR else RPC_ERROR
            if isinstance(error, MCPError):
                logger.info("%s told its caller: %.300s", request.method, " ".join(data.message.split()))
            # The handshake era reports what a handler says with HTTP 200, as its clients expect.
            status = ERROR_CODE_HTTP_STATUS.get(data.code, 200) if call.modern else 200
            forget_frames(error)
            return status, error_response(request.id, data.code, data.message, data.data)
        finally:
            handed.forget_frames()

    async def result(self, call: Call, handed: Handover = Handover()) -> dict[str, Any]:  # noqa: B008
        """The result of a request, as plain data.

        Raises:
            Exception: whatever the handler raised.
        """
        BODY.set(handed.body)  # in this request's own task, as everything below
        CALL.set(handed.around)
        request = call.request
        dispatch = Dispatch(request, call.scope, call.reply)
        set_transport("streamable-http")
        with set_http_request(dispatch.http_request):
            # As the SDK's `serve_one`, which would shield a cleanup from cancellation that hardly any request has.
            runner = _sdk.runner_of(self.mcp, call, self.state)
            try:
                return await runner.on_request(dispatch, request.method, request.params)
            finally:
                del runner.on_request  # kept there, the method would make the runner the collector's business
                if _sdk.needs_cleanup(runner.connection):
                    await aclose_shielded(runner.connection)

    async def observe(self, notification: Notification, version: str, scope: Scope) -> None:
        """Hand a notification to the handlers and middleware that look for it; what they raise is logged."""
        dispatch = Dispatch(notification, scope, Reply(_nowhere, may_stream=False))
        runner = ServerRunner(self.server, Connection.from_envelope(version, None, None), self.state)
        set_transport("streamable-http")
        try:
            with set_http_request(dispatch.http_request):
                await runner.on_notify(dispatch, notification.method, notification.params)
        finally:
            del runner.on_notify  # as above
            await aclose_shielded(runner.connection)


class InSpan(FullLane):
    """The full lane as the others use it where calls are traced: within the span that they have begun."""

    async def result(self, call: Call, handed: Handover = Handover()) -> dict[str, Any]:  # noqa: B008
        """The result of a request, and a note of what goes wrong on its span; raises as `FullLane.result`."""
        with within(handed) as look:
            result = await super().result(call, handed)
            look(result)
            return result


async def _nowhere(_: Message) -> None:
    """A notification has no reply that anything could ride on."""
