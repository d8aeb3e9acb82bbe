"""Tools that fail: each call runs its tool's body once and writes one line of log, in either path."""

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

from fastmcp import Context
from fastmcp.dependencies import Depends
from fastmcp.exceptions import NotFoundError, ToolError, ValidationError
from fastmcp.tools import ToolResult, tool
from fastmcp.utilities.types import Image
from mcp import MCPError
from mcp_types import INVALID_PARAMS, MISSING_REQUIRED_CLIENT_CAPABILITY, InputRequiredResult
from pydantic import BaseModel, TypeAdapter

RUNS: Counter[str] = Counter()
"""How often the body of `counts` ran, by its `key`."""


class _Opaque:
    """JSON knows nothing of this."""


class _Strict(BaseModel):
    number: int


def _fails() -> str:
    raise ValueError("the password is hunter2")


def _fails_for_the_caller() -> str:
    raise ToolError("no such dependency")


def _fails_to_validate() -> str:
    return str(TypeAdapter(int).validate_python("no number"))


@asynccontextmanager
async def _fails_at_the_end() -> AsyncIterator[str]:
    yield "value"
    raise ValueError("the password is hunter2")


@tool
async def fails_for_the_caller() -> str:
    """What the caller is meant to know."""
    raise ToolError("no such account: ä 👋")


@tool
def fails_for_the_caller_in_a_thread() -> str:
    """What the caller is meant to know, from a thread."""
    raise ToolError("no such account\nsecond line")


@tool
async def fails_for_the_caller_because() -> str:
    """What the caller is meant to know, with a cause."""
    try:
        return _fails()
    except ValueError as error:
        raise ToolError("no such account") from error


@tool
async def fails() -> str:
    """What the caller isn't meant to know."""
    return _fails()


@tool
def fails_in_a_thread() -> str:
    """What the caller isn't meant to know, from a thread."""
    return _fails()


@tool
async def fails_as_if_not_found() -> str:
    """FastMCP's word for a component that isn't there."""
    raise NotFoundError("no such row")


@tool
async def fails_as_if_arguments_were_wrong() -> str:
    """FastMCP's word for wrong arguments."""
    raise ValidationError("no such argument")


@tool
async def fails_to_validate() -> str:
    """Pydantic's error, from the body."""
    return str(_Strict.model_validate({"number": "no number"}))


@tool
def fails_to_validate_in_a_thread() -> str:
    """Pydantic's error, from a thread."""
    return _fails_to_validate()


@tool
async def fails_by_protocol() -> str:
    """An error of the protocol."""
    raise MCPError(INVALID_PARAMS, "by the protocol", {"why": None})


@tool
async def fails_for_lack_of_capability() -> str:
    """The error that the specification wants on the wire."""
    data: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
    raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "needs sampling", data)


@tool
async def fails_in_time() -> str:
    """The error that a network library raises."""
    raise TimeoutError("upstream")


@tool
async def fails_in_a_group() -> str:
    """An exception group."""
    raise ExceptionGroup("several", [ValueError("one"), ToolError("two")])


@tool
async def fails_to_stop() -> Any:
    """What an iterator raises, which a coroutine can't."""
    raise StopIteration("early")


@tool
async def exits() -> str:
    """End the process, if it could."""
    sys.exit(3)


@tool
def exits_in_a_thread() -> str:
    """End the process, if it could, from a thread."""
    sys.exit(3)


@tool
async def exits_later() -> str:
    """End the process, if it could, after a wait."""
    await asyncio.sleep(0)
    sys.exit(3)


@tool
async def interrupts() -> str:
    """Raise what Ctrl-C raises."""
    raise KeyboardInterrupt


@tool
async def cancels() -> str:
    """Raise what a cancelled task raises."""
    raise asyncio.CancelledError


@tool
async def cancels_later() -> str:
    """Raise what a cancelled task raises, after a wait."""
    await asyncio.sleep(0)
    raise asyncio.CancelledError("by nobody")


@tool
async def cancels_its_task() -> str:
    """Cancel the task that one runs in."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)
    return "unreachable"


@tool(timeout=0.3)  # enough to refuse arguments in on a busy machine
async def never_ends() -> str:
    """Wait for ever."""
    await asyncio.Event().wait()
    return "unreachable"


@tool
async def returns_infinity() -> float:
    """No JSON number."""
    return float("inf")


@tool
async def returns_opaque() -> Any:
    """No JSON."""
    return {"value": _Opaque()}


@tool
async def returns_surrogate() -> str:
    """No Unicode."""
    return "\ud800"


@tool
async def returns_surrogate_within() -> dict[str, str]:
    """No Unicode, in an object."""
    return {"a": "\ud800"}


@tool
async def complains_in_surrogates() -> str:
    """No Unicode, for the caller."""
    raise ToolError("broken \ud800 text")


@tool
async def depends_on_failure(value: str = Depends(_fails)) -> str:
    """A dependency that fails."""
    return value


@tool
async def depends_on_failure_for_the_caller(value: str = Depends(_fails_for_the_caller)) -> str:
    """A dependency that fails with what the caller is meant to know."""
    return value


@tool
async def depends_on_failure_to_validate(value: str = Depends(_fails_to_validate)) -> str:
    """A dependency that fails with pydantic's error."""
    return value


@tool
async def depends_on_failure_at_the_end(value: str = Depends(_fails_at_the_end)) -> str:
    """A dependency that fails when the body has ended."""
    return value


@tool
async def asks_in_the_middle(ctx: Context) -> str:
    """A question that a server without sessions can't ask."""
    return str(await ctx.elicit("Who?", response_type=str))


@tool
async def calls_what_fails(ctx: Context) -> Any:
    """Call another tool that fails."""
    return await ctx.fastmcp.call_tool("fails_for_the_caller", {})


@tool
async def calls_with_wrong_arguments(ctx: Context) -> Any:
    """Call another tool wrongly."""
    return await ctx.fastmcp.call_tool("gives_number", {"value": "no number"})


@tool
async def calls_nobody(ctx: Context) -> Any:
    """Call a tool that isn't there."""
    return await ctx.fastmcp.call_tool("no_such_tool", {})


@tool
async def reports_and_fails(ctx: Context) -> str:
    """A log message, then an error."""
    await ctx.info("so far so good")
    raise ToolError("but now")


_ERRORS: dict[str, BaseException] = {
    "told": ToolError("told"),
    "masked": ValueError("masked"),
    "protocol": MCPError(INVALID_PARAMS, "protocol"),
    "capability": MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "capability", {}),
    "exit": SystemExit(1),
    "cancelled": asyncio.CancelledError(),
}
_VALUES: dict[str, Any] = {
    "text": "text",
    "nothing": None,
    "image": Image(data=b"", format="png"),
    "result": ToolResult(content="text"),
    "asks": InputRequiredResult(request_state="asked"),
    "opaque": _Opaque(),
    "infinity": float("inf"),
    "object": {"raw": b"\xff"},
}

End = Literal[
    "told", "masked", "protocol", "capability", "exit", "cancelled", "invalid", "late",
    "text", "nothing", "image", "result", "asks", "opaque", "infinity", "object",
]  # fmt: skip


@tool(timeout=0.5)
async def counts(key: str, end: End = "text") -> Any:
    """Count the run, then end in some way."""
    RUNS[key] += 1
    if end in _ERRORS:
        raise type(_ERRORS[end])(*_ERRORS[end].args)
    if end == "invalid":
        _Strict.model_validate({})
    if end == "late":
        await asyncio.Event().wait()
    return _VALUES.get(end)


@tool(timeout=5)
def counts_in_a_thread(key: str, end: End = "text") -> Any:
    """Count the run, then end in some way, in a thread."""
    RUNS[key] += 1
    if end in _ERRORS:
        raise type(_ERRORS[end])(*_ERRORS[end].args)
    if end == "invalid":
        _Strict.model_validate({})
    return _VALUES.get(end)


@tool(output_schema={"type": "object"})
async def counts_against_its_schema(key: str) -> int:
    """Count the run, then return what the schema doesn't allow."""
    RUNS[key] += 1
    return 1
