"""A replica whose sessions any replica with the same Redis takes up.

`python -m benchmarks.mode.shared_sessions` is `python -m server` with another session manager; no server for others to
use. What is shared is what a client said in `initialize`. Whatever else a session gathers stays in the replica where it
did: open event streams, requests to the client that wait for an answer, subscriptions, log levels. A `DELETE` reaches
one replica only. While Redis is away no session is opened, and none is taken up.
"""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any
from unittest import mock

import anyio
import orjson
from anyio.abc import TaskGroup, TaskStatus
from fastmcp.server import http
from mcp.server.connection import Connection
from mcp.server.runner import serve_connection
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER, StreamableHTTPServerTransport
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_swarm.cli.main import main
from mcp_swarm.http.body import replay
from mcp_types import InitializeRequestParams
from redis.asyncio import Redis
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from benchmarks.mode.cases import STORE_URL

_SECONDS = 1800
"""A session is kept for so long after a replica opened it or took it up, as the SDK keeps an idle one."""


class SharedSessions(http.FastMCPStreamableHTTPSessionManager):
    """Writes down what each session began with, before its client hears of it, and looks there for unknown ones."""

    _taken_up: TaskGroup

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._store = Redis.from_url(os.environ[STORE_URL])

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Serve sessions inside of the block."""
        async with self._store, super().run(), anyio.create_task_group() as self._taken_up:
            yield
            self._taken_up.cancel_scope.cancel()

    async def _handle_stateful_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        identity = Headers(scope=scope).get(MCP_SESSION_ID_HEADER)
        if identity is None:
            body = await Request(scope, receive).body()
            await super()._handle_stateful_request(scope, replay(body, receive), self._noting(body, send))
            return
        if identity not in self._server_instances:
            params = await self._store.getex(_key(identity), ex=_SECONDS)
            if params is not None:
                await self._take_up(identity, InitializeRequestParams.model_validate_json(params))
        await super()._handle_stateful_request(scope, receive, send)

    def _noting(self, body: bytes, send: Send) -> Send:
        async def send_noted(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                identity = Headers(raw=message["headers"])[MCP_SESSION_ID_HEADER]
                params = orjson.dumps(orjson.loads(body)["params"])
                await self._store.set(_key(identity), params, ex=_SECONDS)
            await send(message)

        return send_noted

    async def _take_up(self, identity: str, params: InitializeRequestParams) -> None:
        async with self._session_creation_lock:
            if identity in self._server_instances:  # another request was faster
                return
            transport = StreamableHTTPServerTransport(
                identity,
                is_json_response_enabled=self.json_response,
                security_settings=self.security_settings,
                idle_timeout=self.session_idle_timeout,
            )
            await self._taken_up.start(self._serve, identity, params, transport)
            self._server_instances[identity] = transport

    async def _serve(
        self,
        identity: str,
        params: InitializeRequestParams,
        transport: StreamableHTTPServerTransport,
        *,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        async with transport.connect() as (read, write):
            dispatcher: JSONRPCDispatcher[TransportContext] = JSONRPCDispatcher(read, write)
            connection = Connection.for_loop(
                dispatcher, session_id=identity, protocol_version_hint=params.protocol_version
            )
            connection.client_params = params
            connection.initialized.set()
            task_status.started()
            try:
                with transport.idle_scope or nullcontext():
                    await serve_connection(
                        self.app, dispatcher, connection=connection, lifespan_state=self._lifespan_state
                    )
            finally:
                await self._discard_session(identity, transport)


def _key(identity: str) -> str:
    return f"session:{identity}"


if __name__ == "__main__":
    with mock.patch.object(http, "FastMCPStreamableHTTPSessionManager", SharedSessions):
        sys.exit(main())
