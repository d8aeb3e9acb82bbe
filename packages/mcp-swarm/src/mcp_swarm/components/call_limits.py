"""The bounds of one call of a component: its time, and what it may raise.

Stock FastMCP lets a tool that calls `sys.exit()` end the server's task group, after which every request fails; and
it waits for ever for a call that swallows its cancellation. Here each call runs in a task of its own, dependencies
included: the caller is answered when the time is over, whether or not the task ends.
"""

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

from fastmcp.exceptions import FastMCPError, NotFoundError
from fastmcp.exceptions import ValidationError as InvalidArguments
from fastmcp.prompts import PromptResult
from fastmcp.resources import ResourceResult
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import FunctionTool, ToolResult
from mcp import MCPError
from mcp_types import INVALID_PARAMS, CallToolRequestParams, GetPromptRequestParams, ReadResourceRequestParams
from pydantic import ValidationError

from mcp_swarm.components import arguments as arguments_
from mcp_swarm.components.containment import ERRORS
from mcp_swarm.components.outcome import CALL_OUTCOME, Outcome, forget_frames
from mcp_swarm.components.problems import LONGEST_TEXT, is_short
from mcp_swarm.downstream import deadline

logger = logging.getLogger(__name__)

T = TypeVar("T")

_DOING = {"tool": "calling", "resource": "reading", "prompt": "rendering"}


class CallLimits(Middleware):
    """Give each call its time (`seconds`, or those of its tool in `tools`), and let only errors for the caller out."""

    def __init__(self, seconds: float, tools: Mapping[str, float]) -> None:
        self.seconds = seconds
        self.tools = tools

    async def on_call_tool(
        self, context: MiddlewareContext[CallToolRequestParams], call_next: CallNext[CallToolRequestParams, ToolResult]
    ) -> ToolResult:
        """A tool's call."""
        if (outcome := CALL_OUTCOME.get()) is not None:
            CALL_OUTCOME.set(None)  # a component that calls another must run that one
            if outcome.logged and outcome.error is not None:
                raise outcome.error
            return await bounded(_give(outcome), "tool", context.message.name, self.seconds)
        name, arguments, server = context.message.name, context.message.arguments, context.fastmcp_context
        if arguments and server and arguments_.count(arguments) > arguments_.FEW:
            tool = await server.fastmcp.get_tool(name)
            if isinstance(tool, FunctionTool):
                arguments_.check(tool, arguments)
        return await bounded(call_next(context), "tool", name, self.tools.get(name, self.seconds))

    async def on_read_resource(
        self,
        context: MiddlewareContext[ReadResourceRequestParams],
        call_next: CallNext[ReadResourceRequestParams, ResourceResult],
    ) -> ResourceResult:
        """A resource's reading."""
        return await bounded(call_next(context), "resource", str(context.message.uri), self.seconds)

    async def on_get_prompt(
        self,
        context: MiddlewareContext[GetPromptRequestParams],
        call_next: CallNext[GetPromptRequestParams, PromptResult],
    ) -> PromptResult:
        """A prompt's rendering; arguments that are missing or of a wrong type are the caller's mistake (-32602)."""
        name, given = context.message.name, context.message.arguments or {}
        server = context.fastmcp_context
        prompt = await server.fastmcp.get_prompt(name) if server else None
        known = (prompt.arguments if prompt else None) or []
        missing = [argument.name for argument in known if argument.required and argument.name not in given]
        if missing:
            raise MCPError(INVALID_PARAMS, f"Missing required arguments: {', '.join(missing)}")
        try:
            return await bounded(call_next(context), "prompt", name, self.seconds)
        except FastMCPError as error:
            if isinstance(error.__cause__, ValidationError):
                # Only the names: FastMCP's text holds the value and Python's name of the type.
                wrong = [argument.name for argument in known if f"argument '{argument.name}' with" in str(error)]
                raise MCPError(INVALID_PARAMS, f"Arguments of a wrong type: {', '.join(wrong[:1])}") from None
            raise


def out_of_time(kind: str, name: str, seconds: float) -> FastMCPError:
    """Log that a call took too long, and make the error that tells its caller."""
    logger.warning("%s %r did not finish within %g s", kind, name, seconds)
    return ERRORS[kind](f"{kind} {name!r} did not finish within {seconds:g} s", log_level=logging.DEBUG)


async def _give(outcome: Outcome) -> Any:
    return outcome.give()


async def bounded(call: Awaitable[T], kind: str, name: str, seconds: float) -> T:
    """Await one call of a component, in a task of its own, for as long as it may take.

    It raises what the call raised; FastMCPError if that took too long, or raised something that ends processes.
    """
    task = asyncio.ensure_future(_contained(call, kind, name, seconds))
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:  # the caller went away, or the replica stops
        task.cancel()
        raise
    if not done:
        task.cancel()
        task.add_done_callback(_forget)
        raise out_of_time(kind, name, seconds)
    if task.cancelled():
        raise _failure(kind, name, "its task was cancelled from within")
    try:
        return task.result()
    finally:
        del task, done  # this frame is in the traceback of the task's error, and would make a cycle with it


async def _contained(call: Awaitable[T], kind: str, name: str, seconds: float) -> T:
    deadline.until(seconds)  # in this call's own task
    try:
        return await call
    except (FastMCPError, NotFoundError) as error:
        if not str(error).startswith(f"Error {_DOING[kind]} {kind} "):  # masked, and logged with its traceback
            logger.info("%s %r told its caller: %.300s", kind, name, _loggable(error))
        forget_frames(error)
        if isinstance(error, InvalidArguments):
            raise _writable(arguments_.shortened(error)) from None
        raise _writable(error) from error.__cause__
    except (Exception, asyncio.CancelledError):
        raise
    except BaseException as error:  # SystemExit, KeyboardInterrupt and such would end the process
        raise _failure(kind, name, f"{type(error).__name__} was raised", error) from error


def _loggable(error: Exception) -> str:
    """What a caller was told, in one line, without the values of arguments that don't fit."""
    reason = error if isinstance(error, ValidationError) else error.__cause__
    if isinstance(reason, ValidationError):
        if not is_short(reason):
            return f"{reason.error_count()} problems with the arguments"
        found = reason.errors(include_url=False, include_context=False, include_input=False)
        return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['type']}" for each in found)
    return " ".join(str(error).split())


def _failure(kind: str, name: str, why: str, error: BaseException | None = None) -> FastMCPError:
    """Log why a call failed, and make the error that tells its caller only that it did."""
    logger.error("Error %s %s %r: %s", _DOING[kind], kind, name, why, exc_info=error)
    return ERRORS[kind](f"Error {_DOING[kind]} {kind} {name!r}", log_level=logging.DEBUG)


def _writable(error: Exception) -> Exception:
    """An error whose text UTF-8 can carry, and which isn't endless."""
    text = str(error)
    if len(text) <= LONGEST_TEXT and text.isprintable():
        return error
    return type(error)(text[:LONGEST_TEXT].encode(errors="replace").decode())


def _forget(task: asyncio.Future[Any]) -> None:
    """Look at what a task that was given up ended with, or asyncio logs that nobody did."""
    if not task.cancelled():
        task.exception()
