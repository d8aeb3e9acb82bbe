"""The FastMCP path: FastMCP and the SDK's runner answer the requests that no call plan covers.

For a server of the MCP SDK, the runner alone answers all requests.

Lists are cached: they are the same for all callers that may use the same tools (`CachedLists`).
"""

import logging
from collections.abc import Awaitable
from typing import Any

from cachetools import FIFOCache
from fastmcp import FastMCP
from fastmcp.server.context import set_transport
from fastmcp.server.http import set_http_request
from mcp import MCPError
from mcp.server.runner import aclose_shielded, modern_error_data
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS
from mcp_types import INTERNAL_ERROR
from starlette.types import Scope

from anyreplica.auth.caller import caller_of
from anyreplica.components.outcome import BODY_OUTCOME, CALL_OUTCOME, Handover, forget_frames
from anyreplica.http.request_record import FAULT, RPC_ERROR, TOOL_ERROR
from anyreplica.http.responses import ClientGone, encode, error_response, response
from anyreplica.mcp.call import Call, HandlerFailed
from anyreplica.mcp.call_span import noted_in_span
from anyreplica.mcp.compat import sdk
from anyreplica.mcp.compat.contexts import needs_cleanup
from anyreplica.mcp.compat.dispatch import Dispatch, SdkDispatch
from anyreplica.mcp.compat.sdk_server import SdkServer
from anyreplica.mcp.message import Envelopes, Notification, drop_null_token
from anyreplica.process.event_loop import start_exit_proof

logger = logging.getLogger(__name__)

FASTMCP, SDK = "fastmcp", "sdk"
"""Names of paths: what answers the requests on this path."""
HANDSHAKE_FALLBACK, STATELESS_FALLBACK = ("handshake", FASTMCP), ("stateless", FASTMCP)
"""Protocol family and path for the access log."""


class FastMcpPath:
    """The path that answers any request, in both protocol families.

    Args:
        state: the value of FastMCP's lifespan.
        in_span: whether the request's span is already open. Errors are then recorded on this span.
    """

    def __init__(self, mcp: FastMCP, state: Any, *, in_span: bool = False) -> None:
        self.mcp = mcp
        self.state = state
        self.in_span = in_span
        is_sdk = isinstance(mcp, SdkServer)
        name = SDK if is_sdk else FASTMCP
        self._dispatch = SdkDispatch if is_sdk else Dispatch
        self._path = ("handshake", name), ("stateless", name)

    async def answer(self, call: Call, handed: Handover = Handover()) -> None:  # noqa: B008  # frozen
        """Answer a request.

        Args:
            handed: the outcomes that the fast path hands over, if the fast path has already started the call.

        Raises:
            ClientGone: the client closed the connection, and the call was cancelled.
            Refused: the session id of the call is invalid, see `ClientChannel.open`.
        """
        if not call.channel.is_open:
            call = await call.channel.open(call)
        call.record.path = self._path[call.modern]
        task = start_exit_proof(self._serve(call, handed))
        await call.reply.wait_for(task)
        if task.cancelled():  # a middleware raised CancelledError, although nobody cancelled the task
            logger.error("%s: the task of the request cancelled itself", call.request.method)
            call.record.failed = FAULT
            status, message = 200, error_response(call.request.id, INTERNAL_ERROR, "Internal server error")
        else:
            status, message = task.result()
        await call.reply.finish(status, message)

    async def _serve(self, call: Call, handed: Handover) -> tuple[int, bytes]:
        """Return the HTTP status and the JSON-RPC response of a request.

        An exception becomes an error response without internal details.
        """
        request = call.request
        try:
            result = await self.result(call, handed)
            if result.get("isError") is True:
                call.record.failed = TOOL_ERROR
            if request.method == "initialize":
                call.reply.headers = call.channel.reply_headers(call, result)
            return 200, response(request.id, result)
        except ClientGone:
            raise
        except Exception as error:  # noqa: BLE001  # `modern_error_data` logs unexpected errors and hides their texts
            data = modern_error_data(error)
            is_fault = data.code == INTERNAL_ERROR or isinstance(error, HandlerFailed)
            call.record.failed = FAULT if is_fault else RPC_ERROR
            if isinstance(error, MCPError):
                logger.info("%s answered with an error: %.300s", request.method, " ".join(data.message.split()))
            # Clients of the handshake protocol expect the errors of handlers with HTTP status 200.
            status = ERROR_CODE_HTTP_STATUS.get(data.code, 200) if call.modern else 200
            forget_frames(error)
            return status, error_response(request.id, data.code, data.message, data.data)
        finally:
            handed.forget_frames()

    def result(self, call: Call, handed: Handover = Handover()) -> Awaitable[dict[str, Any]]:  # noqa: B008
        """Return the result of a request as plain data. Awaiting it raises the handler's exceptions unchanged."""
        result = self._result(call, handed)
        return noted_in_span(handed, result) if self.in_span else result

    async def _result(self, call: Call, handed: Handover) -> dict[str, Any]:
        # This task runs this request only, so the variables affect no other request.
        BODY_OUTCOME.set(handed.after_body)
        CALL_OUTCOME.set(handed.after_middleware)
        request = call.request
        drop_null_token(request.params)
        dispatch = self._dispatch(request, call.scope, call)
        set_transport("streamable-http")
        with set_http_request(dispatch.http_request):
            # The same steps as in the SDK's `serve_one`, except for the cleanup. `serve_one` always runs a cleanup that
            # is shielded from cancellation, but hardly any request needs one.
            runner = sdk.runner_of_call(self.mcp, self.state, call, dispatch)
            try:
                return await runner.on_request(dispatch, request.method, request.params)
            finally:
                del runner.on_request  # the cached method would keep the runner in a reference cycle
                if needs_cleanup(runner.connection):
                    await aclose_shielded(runner.connection)

    async def observe(self, notification: Notification, version: str, scope: Scope) -> None:
        """Pass a notification to its handlers and to middleware. Their exceptions are logged."""
        dispatch = Dispatch(notification, scope)
        runner = sdk.runner_of(self.mcp, self.state, version)
        params = notification.params
        if params is not None and "requestState" in params:
            # Only a request has a state. The SDK logs an invalid state of a notification with a traceback, so a client
            # could fill the log.
            params = {name: value for name, value in params.items() if name != "requestState"}
        set_transport("streamable-http")
        try:
            with set_http_request(dispatch.http_request):
                await runner.on_notify(dispatch, notification.method, params)
        finally:
            del runner.on_notify  # the cached method would keep the runner in a reference cycle
            await aclose_shielded(runner.connection)


CACHED_METHODS = frozenset(
    {"tools/list", "resources/list", "resources/templates/list", "prompts/list", "server/discover", "ping"}
)

_REMEMBERED = 512
"""Maximum number of cached replies. The number of different sets of tools is usually small."""

_Asked = tuple[str, str, tuple[str, ...] | None]


class CachedLists:
    """A cache of the FastMCP path's replies, by method, protocol version and the tools that the caller may use."""

    def __init__(self, fallback: FastMcpPath, envelopes: Envelopes) -> None:
        self.fallback = fallback
        self.envelopes = envelopes
        self.forget()

    def forget(self) -> None:
        """Drop all replies, because the components have changed.

        The cache is replaced, so that a reply that is still in progress goes into the old one.
        """
        self._known: FIFOCache[_Asked, bytes] = FIFOCache(_REMEMBERED)

    def answer(self, call: Call) -> Awaitable[None]:
        """Answer a request for a list. The FastMCP path answers requests for a part of a list and invalid requests.

        Awaiting the reply raises `Refused` if the call's session id is invalid or its session has ended.
        """
        if not call.channel.is_open:
            return self._open_and_answer(call)
        if not self._asks_for_all(call):
            return self.fallback.answer(call)
        result = self._known.get(_asked(call))
        if result is None:
            return self._ask(call)
        return call.reply.finish(200, b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (encode(call.request.id), result))

    async def _open_and_answer(self, call: Call) -> None:
        await self.answer(await call.channel.open(call))

    async def _ask(self, call: Call) -> None:
        known = self._known
        try:
            result = await self.fallback.result(call)
        except Exception:  # noqa: BLE001  # the FastMCP path logs and answers the error
            await self.fallback.answer(call)
            return
        known[_asked(call)] = encode(result)
        await self.answer(call)

    def _asks_for_all(self, call: Call) -> bool:
        request = call.request
        params = request.params
        if not params:
            return not call.modern
        meta = params.get("_meta")
        if len(params) > 1 or type(meta) is not dict:
            return False
        return self.envelopes.is_valid(request.method, meta, call.version, request.size)


def _asked(call: Call) -> _Asked:
    caller = caller_of(call.scope)
    return call.request.method, call.version, None if caller is None else caller.tools
