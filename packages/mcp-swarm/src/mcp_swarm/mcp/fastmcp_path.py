"""The FastMCP path: FastMCP through the SDK's one-request driver, for whatever no plan expresses."""

import logging
from collections.abc import Awaitable
from typing import Any

from fastmcp import FastMCP
from fastmcp.server.context import set_transport
from fastmcp.server.http import set_http_request
from mcp import MCPError
from mcp.server.runner import aclose_shielded, modern_error_data
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS
from mcp_types import INTERNAL_ERROR
from starlette.types import Scope

from mcp_swarm.components.outcome import BODY_OUTCOME, CALL_OUTCOME, Handover, forget_frames
from mcp_swarm.http.access_log import FAILED, FAULT, PATH_TAKEN, RPC_ERROR, TOOL_ERROR
from mcp_swarm.http.responses import error_response, response
from mcp_swarm.mcp import _sdk
from mcp_swarm.mcp.call import Call
from mcp_swarm.mcp.call_span import noted_in_span
from mcp_swarm.mcp.dispatch import Dispatch
from mcp_swarm.mcp.message import Notification
from mcp_swarm.process import task_exits

logger = logging.getLogger(__name__)

_HANDSHAKE, _STATELESS = ("handshake", "fastmcp"), ("stateless", "fastmcp")


class FastMcpPath:
    """Answers any request of either protocol; `in_span`: its span has begun, and what goes wrong is noted there."""

    def __init__(self, mcp: FastMCP, state: Any, *, in_span: bool = False) -> None:
        self.mcp = mcp
        self.state = state
        self.in_span = in_span

    async def answer(self, call: Call, handed: Handover = Handover()) -> None:  # noqa: B008  # frozen
        """Answer a request, of which the fast path has `handed` over a part.

        Raises:
            ClientGone: the caller closed the connection, and the call was cancelled.
        """
        call.scope[PATH_TAKEN] = _STATELESS if call.modern else _HANDSHAKE
        task = task_exits.start(self._serve(call, handed))
        await call.wait_for(task)
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
            # The handshake protocol reports what a handler says with HTTP 200, as its clients expect.
            status = ERROR_CODE_HTTP_STATUS.get(data.code, 200) if call.modern else 200
            forget_frames(error)
            return status, error_response(request.id, data.code, data.message, data.data)
        finally:
            handed.forget_frames()

    def result(self, call: Call, handed: Handover = Handover()) -> Awaitable[dict[str, Any]]:  # noqa: B008
        """The result of a request, as plain data; awaiting it raises whatever the handler raised."""
        result = self._result(call, handed)
        return noted_in_span(handed, result) if self.in_span else result

    async def _result(self, call: Call, handed: Handover) -> dict[str, Any]:
        BODY_OUTCOME.set(handed.body)  # in this request's own task, as everything below
        CALL_OUTCOME.set(handed.around)
        request = call.request
        dispatch = Dispatch(request, call.scope, call)
        set_transport("streamable-http")
        with set_http_request(dispatch.http_request):
            # As the SDK's `serve_one`, which would shield a cleanup from cancellation that hardly any request has.
            runner = _sdk.runner_of(self.mcp, self.state, call.version, call.client)
            try:
                return await runner.on_request(dispatch, request.method, request.params)
            finally:
                del runner.on_request  # kept there, the method would make the runner the collector's business
                if _sdk.needs_cleanup(runner.connection):
                    await aclose_shielded(runner.connection)

    async def observe(self, notification: Notification, version: str, scope: Scope) -> None:
        """Hand a notification to the handlers and middleware that look for it; what they raise is logged."""
        dispatch = Dispatch(notification, scope)
        runner = _sdk.runner_of(self.mcp, self.state, version)
        set_transport("streamable-http")
        try:
            with set_http_request(dispatch.http_request):
                await runner.on_notify(dispatch, notification.method, notification.params)
        finally:
            del runner.on_notify  # as above
            await aclose_shielded(runner.connection)
