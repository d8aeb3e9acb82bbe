"""Multi-round components for handshake-protocol clients.

A component that returns an `InputRequiredResult` asks for input. A client of the stateless protocol then sends the call
again with its input. For a client of the handshake protocol, this replica does the same: it asks the client with
requests on the event stream of the call, and calls the component again with the answers and the component's state.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from fastmcp.prompts.base import InputRequiredPromptResult, PromptResult
from fastmcp.resources.base import InputRequiredResourceResult, ResourceResult
from fastmcp.server.dependencies import bind_request_context
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import ToolResult
from fastmcp.tools.base import InputRequiredToolResult
from mcp.server.context import ServerRequestContext
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    CallToolRequestParams,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitRequest,
    ElicitResult,
    GetPromptRequestParams,
    InputRequest,
    ListRootsRequest,
    ListRootsResult,
    ReadResourceRequestParams,
    Result,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from mcp_swarm.components.outcome import BODY_OUTCOME, CALL_OUTCOME
from mcp_swarm.mcp._sdk import request_context_of
from mcp_swarm.sessions.errors import ClientRequestError

P = TypeVar("P")
R = TypeVar("R")

_MOST_ROUNDS = 100
"""Maximum number of rounds of a handshake-protocol call. In the stateless protocol, the client sends each round itself,
so the client limits the number."""
_PAUSE_SECONDS = 0.5
"""Pause before the next round if a component asks for nothing and only wants to be called again."""

_CANNOT = (
    "The component needs several rounds. With a handshake-protocol client, this needs HANDSHAKE_SESSIONS=ask, the "
    "Mcp-Session-Id from initialize in the call, and the header Accept with text/event-stream."
)
_INPUT_REQUIRED = (InputRequiredToolResult, InputRequiredPromptResult, InputRequiredResourceResult)


class Rounds(Middleware):
    """FastMCP middleware that drives the rounds of a component for a handshake-protocol client.

    It must be outside `CallLimits`. Then the time limit of a call holds for each round, as in the stateless protocol.
    """

    async def on_call_tool(
        self, context: MiddlewareContext[CallToolRequestParams], call_next: CallNext[CallToolRequestParams, ToolResult]
    ) -> ToolResult:
        """Drive the rounds of a tool."""
        return await self._rounds(context, call_next)

    async def on_read_resource(
        self,
        context: MiddlewareContext[ReadResourceRequestParams],
        call_next: CallNext[ReadResourceRequestParams, ResourceResult],
    ) -> ResourceResult:
        """Drive the rounds of a resource."""
        return await self._rounds(context, call_next)

    async def on_get_prompt(
        self,
        context: MiddlewareContext[GetPromptRequestParams],
        call_next: CallNext[GetPromptRequestParams, PromptResult],
    ) -> PromptResult:
        """Drive the rounds of a prompt."""
        return await self._rounds(context, call_next)

    async def _rounds(self, context: MiddlewareContext[P], call_next: CallNext[P, R]) -> R:
        result = await call_next(context)
        if not isinstance(result, _INPUT_REQUIRED):
            return result
        request = request_context_of(context)
        if request is None or request.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return result
        for _ in range(_MOST_ROUNDS):
            asked = result.input_required
            responses = await _answers(request, asked.input_requests or {})
            params = {**(request.params or {}), "inputResponses": responses, "requestState": asked.request_state}
            BODY_OUTCOME.set(None)  # the outcomes of the fast path are those of the first round
            CALL_OUTCOME.set(None)
            with bind_request_context(replace(request, params=params)):
                result = await call_next(context)
            if not isinstance(result, _INPUT_REQUIRED):
                return result
        raise ClientRequestError(INTERNAL_ERROR, f"The call asked its client in {_MOST_ROUNDS} rounds, the maximum.")


async def _answers(request: ServerRequestContext[Any, Any], asked: Mapping[str, InputRequest]) -> dict[str, Any]:
    """Ask the client all questions of a round at once, and return the answers by the names of the questions."""
    if not asked:
        if not request.session.can_send_request:
            raise ClientRequestError(INVALID_REQUEST, _CANNOT)
        await asyncio.sleep(_PAUSE_SECONDS)
        return {}
    tasks = {name: asyncio.ensure_future(_answer(request, each)) for name, each in asked.items()}
    try:
        return dict(zip(tasks, await asyncio.gather(*tasks.values()), strict=True))
    finally:
        for task in tasks.values():
            task.cancel()


async def _answer(request: ServerRequestContext[Any, Any], asked: InputRequest) -> dict[str, Any]:
    """Ask the client one question and return its answer as plain data."""
    try:
        result = await request.session.send_request(asked, _result_type(asked))
    except ValidationError:
        raise ClientRequestError(INTERNAL_ERROR, f"The client's answer to {asked.method} has a wrong form.") from None
    return result.model_dump(by_alias=True, mode="json", exclude_none=True)


def _result_type(asked: InputRequest) -> type[Result]:
    if isinstance(asked, ElicitRequest):
        return ElicitResult
    if isinstance(asked, ListRootsRequest):
        return ListRootsResult
    return CreateMessageResultWithTools if asked.params.tools else CreateMessageResult
