"""The endpoint for the SDK's own transport: JSON_RESPONSE=false (event streams) or STATELESS_HTTP=false (sessions)."""

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from fastmcp import FastMCP
from sse_starlette.sse import AppStatus
from starlette.applications import Starlette
from starlette.types import Message, Receive, Scope, Send

from anyreplica.auth.caller import CALLER
from anyreplica.http.access_log import CALLED, FAILED, PATH_TAKEN, RPC_ERROR, TOOL_ERROR
from anyreplica.http.body import replay
from anyreplica.http.headers import deciding, drop_credentials, drop_session_id, headers_of
from anyreplica.http.intake import Intake
from anyreplica.http.refusal import ClientGone, Refused, send_refusal
from anyreplica.http.responses import encode
from anyreplica.mcp._sdk_server import SdkServer
from anyreplica.mcp.call import Call
from anyreplica.mcp.catalogue import Catalogue
from anyreplica.mcp.message import Notification, Request, Response, called, called_tool, drop_null_token, parse
from anyreplica.mcp.protocol_version import handshake_version
from anyreplica.mcp.stateless import forget_sessions
from anyreplica.settings import Settings

_LISTEN = "subscriptions/listen"


class SdkEndpoint:
    """The ASGI endpoint that checks a request, notes its method for the log, and lets FastMCP's app answer.

    It refuses the requests that the SDK would handle wrongly.
    """

    def __init__(self, mcp: FastMCP, settings: Settings, catalogue: Catalogue, intake: Intake) -> None:
        self.stateless = settings.stateless_http
        self._path = settings.mcp_path
        if self.stateless:
            forget_sessions(mcp)
        self.app = self._app(mcp, json_response=settings.json_response != "false")
        self.intake = intake
        self._catalogue = catalogue
        self._stopping = asyncio.Event()
        # At SIGTERM, sse_starlette would cut the event streams of the calls in flight.
        AppStatus.disable_automatic_graceful_drain()  # type: ignore[no-untyped-call]

    def _app(self, mcp: FastMCP, *, json_response: bool) -> Starlette:
        if isinstance(mcp, SdkServer):
            return mcp.sdk_app(self._path, stateless=self.stateless, json_response=json_response)
        login, mcp.auth = mcp.auth, None  # the authenticator in front of this endpoint has checked the token already
        app = mcp.http_app(
            path=self._path,
            stateless_http=self.stateless,
            json_response=json_response,
            host_origin_protection=False,  # the intake has already checked Host and Origin
        )
        mcp.auth = login
        return app

    def opened(self) -> AbstractAsyncContextManager[Any]:
        """Return the lifespan of FastMCP's app. The endpoint answers requests while this lifespan is open."""
        return self.app.router.lifespan_context(self.app)

    def tool_paths(self) -> Mapping[str, str]:
        """Return the path of each tool, with the setting that selects this endpoint."""
        asked = "JSON_RESPONSE=false" if self.stateless else "STATELESS_HTTP=false"
        return {tool.name: f"SDK endpoint: {asked}" for tool in self._catalogue.tools}

    async def answer_fully(self, call: Call) -> None:
        """Raise NotImplementedError: the endpoint of the SDK makes no calls of this package."""
        raise NotImplementedError

    def stop(self) -> None:
        """End the open event streams of all sessions, because they would never end by themselves."""
        self._stopping.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._serve(scope, receive, send)
        except Refused as refused:
            await send_refusal(scope, send, refused)
        except ClientGone:
            return

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["path"] = (
            scope.get("root_path", "") + self._path
        )  # the path of FastMCP's route; many clients send a trailing slash
        headers = headers_of(scope)
        if deciding(scope, headers) not in self.intake.admission.known:
            await self.intake.admission.check(scope, receive)
        if self.stateless and b"mcp-session-id" in headers:
            drop_session_id(scope)
        if CALLER in scope:
            drop_credentials(scope)
        if scope["method"] != "POST":
            intake = self.intake
            if scope["method"] == "GET":
                leave = await intake.listen(scope)
            else:
                leave = await intake.enter(intake.in_flight, scope, "", None, 0, concurrent=False)
            try:
                await self._listen(scope, receive, send)
            finally:
                leave()
            return
        body = await self.intake.body.read(receive, headers.get(b"content-length"))
        message = parse(body)
        self.intake.observe(scope, message.params, is_call=isinstance(message, Request))
        if isinstance(message, Request):
            scope[CALLED] = called(message)
            scope[PATH_TAKEN] = ("stateless" if handshake_version(headers) is None else "handshake", "sdk")
        intake = self.intake
        listens = message.method == _LISTEN
        leave = await intake.count(scope, called_tool(message), message.id, message.memory, listens=listens)

        async def send_noting_failure(part: Message) -> None:
            if part["type"] == "http.response.body" and (failed := _failed(part.get("body", b""))):
                scope[FAILED] = failed
            await send(part)

        try:
            await self.app(scope, replay(_without_null_token(message, body), receive), send_noting_failure)
        finally:
            leave()

    async def _listen(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a session's event stream until the client leaves or the replica stops, and end the reply properly."""
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


def _without_null_token(message: Request | Notification | Response, body: bytes) -> bytes:
    """Return the body of a message. A progress token that is null is left out."""
    if not isinstance(message, Request) or not drop_null_token(message.params):
        return body
    return encode({"jsonrpc": "2.0", "id": message.id, "method": message.method, "params": message.params})


def _failed(body: bytes) -> str:
    """Return the kind of error in a part of a reply; return an empty text if there is none.

    The function searches for JSON text. Quotes inside a JSON string are escaped, so a string cannot match by mistake.
    Only a structured result with such a key would match.
    """
    if b'"isError":true' in body:
        return TOOL_ERROR
    return RPC_ERROR if b'"error":{"code":' in body else ""
