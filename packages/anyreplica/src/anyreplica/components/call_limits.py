"""The limits of one call of a component: its deadline, and a filter for the exceptions that it raises.

With FastMCP alone, a tool that calls `sys.exit()` ends the server's task group, and every later request fails. FastMCP
also waits forever for a call that ignores its cancellation. Here each call runs in a task of its own, together with its
dependencies. When the time limit ends, the client gets an error, whether or not the task ends.

The time for which a call waits for its client does not count (`Pauses`). All code that works for a call can read its
deadline (`remaining_seconds`).
"""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
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

from anyreplica.components import arguments as arguments_
from anyreplica.components.containment import ERRORS
from anyreplica.components.outcome import CALL_OUTCOME, Outcome, forget_frames
from anyreplica.components.problems import LONGEST_TEXT, is_short

logger = logging.getLogger(__name__)

DEADLINE: ContextVar[float | None] = ContextVar("deadline", default=None)
"""The deadline, as a time of the monotonic clock minus the time of the call's pauses. Tools in threads can read this
clock, although they have no event loop."""


class Pauses:
    """The time for which a call has waited for its client. This time does not count for the call's deadline."""

    __slots__ = ("_open", "_since", "_total")

    def __init__(self) -> None:
        self._open = 0
        self._since = 0.0
        self._total = 0.0

    @property
    def is_open(self) -> bool:
        """Whether the call waits for its client now."""
        return self._open > 0

    @property
    def seconds(self) -> float:
        """The time of all pauses, in seconds, including the current one."""
        return self._total + (time.monotonic() - self._since if self._open else 0.0)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Count the time inside the `with` block. If several blocks are open at once, their time counts once."""
        if not self._open:
            self._since = time.monotonic()
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1
            if not self._open:
                self._total += time.monotonic() - self._since


PAUSES: ContextVar[Pauses | None] = ContextVar("pauses", default=None)
"""The pauses of the current call, or None if the call cannot ask its client."""

_POLL_SECONDS = 0.25
"""Pause between two checks of a task whose time limit has ended, while the call waits for its client."""


def set_deadline(seconds: float | None) -> None:
    """Set the deadline of this context to `seconds` from now. An earlier deadline stays.

    None removes the deadline, for work that continues after its call has ended.
    """
    if seconds is None:
        DEADLINE.set(None)
        return
    end, known = time.monotonic() - _paused() + seconds, DEADLINE.get()
    DEADLINE.set(end if known is None else min(end, known))


def remaining_seconds() -> float | None:
    """Return the remaining seconds, 0 after the deadline, or None without a deadline."""
    end = DEADLINE.get()
    return None if end is None else max(0.0, end - (time.monotonic() - _paused()))


class TimeLimit:
    """A time limit from now on. The pauses of the current call do not count. None: no limit."""

    __slots__ = ("_end", "_pauses")

    def __init__(self, seconds: float | None) -> None:
        self._pauses = PAUSES.get()
        self._end = math.inf if seconds is None else time.monotonic() - _paused() + seconds

    def seconds_until_check(self) -> float:
        """Return the seconds after which to check `has_ended` again."""
        left = self._end - time.monotonic()
        if self._pauses is None:
            return max(left, 0.0)
        return max(left + self._pauses.seconds, _POLL_SECONDS if self._pauses.is_open else 0.0)

    def has_ended(self) -> bool:
        """Return whether the time is over. It is never over during a pause."""
        if self._pauses is None:
            return time.monotonic() >= self._end
        return not self._pauses.is_open and time.monotonic() - self._pauses.seconds >= self._end


async def _done_within(task: asyncio.Future[Any], seconds: float) -> bool:
    """Wait until a task is done, for at most `seconds` without the pauses. Return whether the task is done."""
    limit = TimeLimit(seconds)
    while True:
        done, _ = await asyncio.wait({task}, timeout=limit.seconds_until_check())
        if done or limit.has_ended():
            return task.done()


def _paused() -> float:
    pauses = PAUSES.get()
    return 0.0 if pauses is None else pauses.seconds


T = TypeVar("T")

_DOING = {"tool": "calling", "resource": "reading", "prompt": "rendering"}


class CallLimits(Middleware):
    """FastMCP middleware that limits the time of each call and lets only errors that are meant for clients pass.

    Args:
        seconds: time limit of a call.
        tools: time limits of tools with a timeout of their own, by tool name.
    """

    def __init__(self, seconds: float, tools: Mapping[str, float]) -> None:
        self.seconds = seconds
        self.tools = tools

    async def on_call_tool(
        self, context: MiddlewareContext[CallToolRequestParams], call_next: CallNext[CallToolRequestParams, ToolResult]
    ) -> ToolResult:
        """Limit the call of a tool."""
        if (outcome := CALL_OUTCOME.get()) is not None:
            CALL_OUTCOME.set(None)  # for this call only: if the tool calls another tool, that tool must run
            if outcome.logged and outcome.error is not None:
                raise outcome.error
            return await bounded(_unwrapped(outcome), "tool", context.message.name, self.seconds)
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
        """Limit the reading of a resource."""
        return await bounded(call_next(context), "resource", str(context.message.uri), self.seconds)

    async def on_get_prompt(
        self,
        context: MiddlewareContext[GetPromptRequestParams],
        call_next: CallNext[GetPromptRequestParams, PromptResult],
    ) -> PromptResult:
        """Limit the rendering of a prompt.

        Raises:
            MCPError: -32602. Arguments are missing, or an argument has the wrong type.
        """
        name, given = context.message.name, context.message.arguments or {}
        server = context.fastmcp_context
        prompt = await server.fastmcp.get_prompt(name) if server else None
        known = (prompt.arguments if prompt else None) or []
        missing = {argument.name for argument in known if argument.required} - given.keys()
        if missing:  # FastMCP has the same text, and writes a traceback into the log
            raise MCPError(INVALID_PARAMS, f"Missing required arguments: {missing}")
        try:
            return await bounded(call_next(context), "prompt", name, self.seconds)
        except FastMCPError as error:
            what, found, _ = str(error).partition(" with value ")
            if found and what.startswith("Could not convert argument"):
                # The rest of FastMCP's text is the argument's value, and pydantic's text.
                raise MCPError(INVALID_PARAMS, f"{what} to its type") from None
            raise


def out_of_time(kind: str, name: str, seconds: float) -> FastMCPError:
    """Log that a call exceeded its time limit, and return the error for the client."""
    logger.warning("%s %r did not finish within %g s", kind, name, seconds)
    return ERRORS[kind](f"{kind} {name!r} did not finish within {seconds:g} s", log_level=logging.DEBUG)


async def _unwrapped(outcome: Outcome) -> Any:
    return outcome.unwrap()


async def bounded(call: Awaitable[T], kind: str, name: str, seconds: float) -> T:
    """Await one call of a component, in a task of its own, for at most `seconds`.

    The time in which the call waits for an answer of its client does not count.

    Raises:
        FastMCPError: the time limit ended, or the call raised an exception that ends processes, such as SystemExit.
        Exception: any other exception that the call raised.
    """
    task = asyncio.ensure_future(_contained(call, kind, name, seconds))
    try:
        done = await _done_within(task, seconds)
    except asyncio.CancelledError:  # the client closed the connection, or the replica stops
        task.cancel()
        raise
    if not done:
        task.cancel()
        task.add_done_callback(_forget)
        raise out_of_time(kind, name, seconds)
    if task.cancelled():
        raise _failure(kind, name, "the call cancelled itself")
    try:
        return task.result()
    finally:
        del task  # the task's error refers to this frame by its traceback; without `del`, the frame refers to the task


async def _contained(call: Awaitable[T], kind: str, name: str, seconds: float) -> T:
    set_deadline(seconds)  # this task runs this call only, so the deadline affects no other call
    try:
        return await call
    except (FastMCPError, NotFoundError) as error:
        if not str(error).startswith(f"Error {_DOING[kind]} {kind} "):  # FastMCP logs a masked error with its traceback
            logger.info("%s %r answered with an error: %.300s", kind, name, _loggable(error))
        forget_frames(error)
        if isinstance(error, InvalidArguments):
            raise _writable(arguments_.shortened(error)) from None
        raise _writable(_with_kind(error, kind)) from error.__cause__
    except (Exception, asyncio.CancelledError):
        raise
    except BaseException as error:  # SystemExit and KeyboardInterrupt would end the process
        raise _failure(kind, name, f"the call raised {type(error).__name__}", error) from error


def _loggable(error: Exception) -> str:
    """Return an error's text in one line for the log, without the values of invalid arguments."""
    reason = error if isinstance(error, ValidationError) else error.__cause__
    if isinstance(reason, ValidationError):
        if not is_short(reason):
            return f"{reason.error_count()} problems with the arguments"
        found = reason.errors(include_url=False, include_context=False, include_input=False)
        return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['type']}" for each in found)
    return " ".join(str(error).split())


def _failure(kind: str, name: str, why: str, error: BaseException | None = None) -> FastMCPError:
    """Log why a call failed, and return an error for the client that does not contain the reason."""
    logger.error("Error %s %s %r: %s", _DOING[kind], kind, name, why, exc_info=error)
    return ERRORS[kind](f"Error {_DOING[kind]} {kind} {name!r}", log_level=logging.DEBUG)


def _with_kind(error: Exception, kind: str) -> Exception:
    """Return FastMCP's error about a `KeyError` with this word. The text of a `KeyError` is only the missing key."""
    reason, text = error.__cause__, str(error)
    ours = type(error) is ERRORS[kind] and text.startswith(f"Error {_DOING[kind]} {kind} ")
    if not ours or not isinstance(reason, KeyError) or not text.endswith(f": {reason}"):
        return error
    return ERRORS[kind](f"{text.removesuffix(str(reason))}KeyError: {reason}")


def _writable(error: Exception) -> Exception:
    """Return an error that UTF-8 can encode, with at most `LONGEST_TEXT` characters."""
    text = str(error)
    if len(text) <= LONGEST_TEXT and text.isprintable():
        return error
    return type(error)(text[:LONGEST_TEXT].encode(errors="replace").decode())


def _forget(task: asyncio.Future[Any]) -> None:
    """Read the exception of an abandoned task; otherwise asyncio logs that nobody read it."""
    if not task.cancelled():
        task.exception()
