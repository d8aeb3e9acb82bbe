"""Multi-round components for handshake-protocol clients.

A component that returns an `InputRequiredResult` asks for input. A client of the stateless protocol then sends the call
again with its input. For a client of the handshake protocol, this replica does the same: it asks the client with
requests on the event stream of the call, and calls the component again with the answers and the component's state.
"""

import asyncio
import contextlib
from dataclasses import replace
from typing import Any, TypeVar

from fastmcp.prompts.base import InputRequiredPromptResult, PromptResult
from fastmcp.resources.base import InputRequiredResourceResult, ResourceResult
from fastmcp.server.dependencies import bind_request_context
from fastmcp.server.middleware import CallNext, MiddlewareContext
from fastmcp.tools import ToolResult
from fastmcp.tools.base import InputRequiredToolResult
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.shared.dispatcher import CallOptions
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitResult,
    GetPromptRequestParams,
    InputRequiredResult,
    ListRootsResult,
    ReadResourceRequestParams,
    Result,
)
from mcp_types.methods import validate_client_result
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from anyreplica.components.outcome import BODY_OUTCOME, CALL_OUTCOME
from anyreplica.features.sessions.call_events import OpenRound, Question, new_identity
from anyreplica.features.sessions.client_requests import MissingCapability
from anyreplica.features.sessions.reply import SessionReply
from anyreplica.mcp.call import NO_STREAM, ClientRequestError, NoClientChannel
from anyreplica.mcp.compat.sdk import call_of, outbound_of, request_context_of
from anyreplica.mcp.server_setup import OwnMiddleware

P = TypeVar("P")
R = TypeVar("R")

_MOST_ROUNDS = 100
"""Maximum number of rounds of a handshake-protocol call. In the stateless protocol, the client sends each round itself,
so the client limits the number."""
_PAUSE_SECONDS = 0.5
"""Pause before the next round if a component asks for nothing and only wants to be called again."""

_NEEDS_ROUNDS = (
    "The component returned an InputRequiredResult, which needs protocol version 2026-07-28. This client uses {}, and "
    "the server cannot ask it: {}"
)
_INPUT_REQUIRED = (InputRequiredToolResult, InputRequiredPromptResult, InputRequiredResourceResult)


class Rounds(OwnMiddleware):
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
        request = request_context_of(context)
        reply = None if request is None else _reply(request)
        nested = request is not None and not _is_called_by_client(request, context.message)
        if nested:
            reply = None  # a new replica would begin with the component that calls this one
        if request is not None and reply is not None and reply.adopted is not None:
            found = reply.adopted.round
        else:
            result = await call_next(context)
            if not isinstance(result, _INPUT_REQUIRED):
                return result
            if request is None or request.protocol_version in MODERN_PROTOCOL_VERSIONS:
                return result
            if not request.session.can_send_request:
                if nested:
                    return result  # the component that the client calls returns it, too
                raise _cannot_ask(request)
            found = _round(request, 0, result.input_required)
        while found.number < _MOST_ROUNDS:
            responses = await _answers_or_none(request, reply, found, nested=nested)
            if responses is None:
                return result
            params = {**found.params, "inputResponses": responses, "requestState": found.state}
            BODY_OUTCOME.set(None)  # the outcomes of the fast path are those of the first round
            CALL_OUTCOME.set(None)
            with bind_request_context(replace(request, params=params)):
                result = await call_next(context)
            if not isinstance(result, _INPUT_REQUIRED):
                return result
            found = _round(request, found.number + 1, result.input_required)
        raise ClientRequestError(INTERNAL_ERROR, f"The call asked its client in {_MOST_ROUNDS} rounds, the maximum.")


def _cannot_ask(request: ServerRequestContext[Any, Any]) -> MCPError:
    call = call_of(request)
    channel = call.channel if call is not None and isinstance(call.channel, NoClientChannel) else NO_STREAM
    return _needs_rounds(request, channel.reason)


def _needs_rounds(request: ServerRequestContext[Any, Any], reason: str) -> MCPError:
    """Return the error for a client that cannot be asked. FastMCP has the same code, and the same facts without why."""
    return MCPError(INVALID_PARAMS, _NEEDS_ROUNDS.format(request.protocol_version, reason))


def _reply(request: ServerRequestContext[Any, Any]) -> SessionReply | None:
    """Return the reply of a call with a session. None: the call has none, so no other replica can take it over."""
    call = call_of(request)
    return call.reply if call is not None and isinstance(call.reply, SessionReply) else None


def _is_called_by_client(request: ServerRequestContext[Any, Any], message: Any) -> bool:
    """Return whether the client calls this component. If not, the code of another component calls it."""
    params = request.params or {}
    named = getattr(message, "name", None) or getattr(message, "uri", None)
    arguments = getattr(message, "arguments", None) or {}
    is_named = str(named) == str(params.get("name") or params.get("uri"))
    return is_named and arguments == (params.get("arguments") or {})


def _round(request: ServerRequestContext[Any, Any], number: int, asked: InputRequiredResult) -> OpenRound:
    """Return the round that a component asks for."""
    questions = {}
    for name, each in (asked.input_requests or {}).items():
        data = each.model_dump(by_alias=True, mode="json", exclude_none=True)
        questions[name] = Question(new_identity(), data["method"], data.get("params"))
    params = dict(request.params or {})
    return OpenRound(request.method, params, request.protocol_version, number, asked.request_state, questions)


async def _answers_or_none(
    request: ServerRequestContext[Any, Any], reply: SessionReply | None, found: OpenRound, *, nested: bool
) -> dict[str, Any] | None:
    """Return the answers of a round like `_answers`.

    Args:
        nested: whether another component has called this one. If the client lacks a capability for the first round,
            return None: the component that the client calls can return the question, too.

    Raises:
        MCPError: the client lacks a capability.
    """
    try:
        return await _answers(request, reply, found)
    except MissingCapability as missing:
        if not nested:
            raise _needs_rounds(request, f"it lacks the capability {missing.capability}.") from None
        if found.number:
            raise
        return None


async def _answers(
    request: ServerRequestContext[Any, Any], reply: SessionReply | None, found: OpenRound
) -> dict[str, Any]:
    """Ask the client all questions of a round at once, and return the answers by the names of the questions.

    While the client is asked, another replica can take over the call.
    """
    if not found.questions:
        await asyncio.sleep(_PAUSE_SECONDS)
        return {}
    if reply is not None:
        await reply.wait_in_round(found)
    tasks = {name: asyncio.ensure_future(_answer(request, each)) for name, each in found.questions.items()}
    try:
        answers = dict(zip(tasks, await asyncio.gather(*tasks.values()), strict=True))
    except ClientRequestError:  # the call ends, so no other replica goes on with this round
        if reply is not None:
            await reply.end_round()
        raise
    finally:
        for task in tasks.values():
            task.cancel()
    if reply is not None:
        await reply.end_round()
    return answers


async def _answer(request: ServerRequestContext[Any, Any], asked: Question) -> dict[str, Any]:
    """Ask the client one question and return its answer as plain data."""
    opts: CallOptions = {"request_id": asked.identity}
    outbound = outbound_of(request)
    if outbound is None:
        raise _cannot_ask(request)
    result = await outbound.send_raw_request(asked.method, asked.params, opts)
    try:
        with contextlib.suppress(KeyError):  # the protocol version does not have the method
            validate_client_result(asked.method, request.protocol_version, result)
        answer = _result_type(asked).model_validate(result, by_name=False)
    except ValidationError:
        raise ClientRequestError(INTERNAL_ERROR, f"The client's answer to {asked.method} has a wrong form.") from None
    return answer.model_dump(by_alias=True, mode="json", exclude_none=True)


def _result_type(asked: Question) -> type[Result]:
    if asked.method == "elicitation/create":
        return ElicitResult
    if asked.method == "roots/list":
        return ListRootsResult
    return CreateMessageResultWithTools if (asked.params or {}).get("tools") else CreateMessageResult
