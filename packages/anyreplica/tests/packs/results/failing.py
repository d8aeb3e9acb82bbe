"""Tools that fail. On both paths, no call runs its tool's body twice, and each failure is logged once."""

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal

from fastmcp import Context
from fastmcp.exceptions import NotFoundError, ToolError, ValidationError
from fastmcp.tools import ToolResult, tool
from fastmcp.utilities.types import Image
from mcp import MCPError
from mcp_types import INVALID_PARAMS, MISSING_REQUIRED_CLIENT_CAPABILITY, InputRequiredResult
from pydantic import BaseModel, TypeAdapter

from tests.packs.returning import depending, raising, returning

RUNS: Counter[str] = Counter()
"""Number of runs of the body of `counts`, by its argument `key`."""


class _Opaque:
    """A value that JSON cannot represent."""


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


_RAISED: dict[str, tuple[Any, ...]] = {
    "fails_for_the_caller": (ToolError, "no such account: ä 👋"),
    "fails_as_if_not_found": (NotFoundError, "no such row"),
    "fails_as_if_arguments_were_wrong": (ValidationError, "no such argument"),
    "fails_by_protocol": (MCPError, INVALID_PARAMS, "by the protocol", {"why": None}),
    # The specification requires this error for a missing capability.
    "fails_for_lack_of_capability": (
        MCPError,
        MISSING_REQUIRED_CLIENT_CAPABILITY,
        "needs sampling",
        {"requiredCapabilities": {"sampling": {}}},
    ),
    "fails_in_time": (TimeoutError, "upstream"),  # as a network library does
    "fails_in_a_group": (ExceptionGroup, "several", [ValueError("one"), ToolError("two")]),
    "fails_to_stop": (StopIteration, "early"),  # a coroutine cannot raise it
    "interrupts": (KeyboardInterrupt,),  # like Ctrl-C
    "cancels": (asyncio.CancelledError,),
    "complains_in_surrogates": (ToolError, "broken \ud800 text"),
}
_RESULTS: dict[str, tuple[Any, ...]] = {
    "returns_infinity": (float("inf"), float),
    "returns_surrogate": ("\ud800", str),
    "returns_surrogate_within": ({"a": "\ud800"}, dict[str, str]),
}
_DEPENDENCIES: dict[str, Callable[..., Any]] = {
    "depends_on_failure": _fails,
    "depends_on_failure_for_the_caller": _fails_for_the_caller,
    "depends_on_failure_to_validate": _fails_to_validate,
    "depends_on_failure_at_the_end": _fails_at_the_end,
}
globals().update(raising(_RAISED) | returning(_RESULTS) | depending(_DEPENDENCIES))


@tool
def fails_for_the_caller_in_a_thread() -> str:
    """Raise an error with a message for the caller, from a thread."""
    raise ToolError("no such account\nsecond line")


@tool
async def fails_for_the_caller_because() -> str:
    """Raise an error with a message for the caller and with a cause."""
    try:
        return _fails()
    except ValueError as error:
        raise ToolError("no such account") from error


@tool
async def fails() -> str:
    """Raise an error whose text the caller must not see."""
    return _fails()


@tool
def fails_in_a_thread() -> str:
    """Raise an error whose text the caller must not see, from a thread."""
    return _fails()


@tool
async def fails_to_validate() -> str:
    """Raise pydantic's error in the body."""
    return str(_Strict.model_validate({"number": "no number"}))


@tool
def fails_to_validate_in_a_thread() -> str:
    """Raise pydantic's error from a thread."""
    return _fails_to_validate()


@tool
async def exits() -> str:
    """Try to exit the process."""
    sys.exit(3)


@tool
def exits_in_a_thread() -> str:
    """Try to exit the process from a thread."""
    sys.exit(3)


@tool
async def exits_later() -> str:
    """Try to exit the process after a wait."""
    await asyncio.sleep(0)
    sys.exit(3)


@tool
async def cancels_later() -> str:
    """Raise CancelledError after a wait."""
    await asyncio.sleep(0)
    raise asyncio.CancelledError("by nobody")


@tool
async def cancels_its_task() -> str:
    """Cancel the task that runs the call."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)
    return "unreachable"


@tool(timeout=1)  # Within this time, a busy machine must refuse wrong arguments, and middleware call another tool.
async def never_ends() -> str:
    """Wait forever."""
    await asyncio.Event().wait()
    return "unreachable"


@tool
async def asks_in_the_middle(ctx: Context) -> str:
    """Ask a question in the middle of a call, which a server without sessions cannot do."""
    return str(await ctx.elicit("Who?", response_type=str))


@tool
async def calls_what_fails(ctx: Context) -> Any:
    """Call another tool that fails."""
    return await ctx.fastmcp.call_tool("fails_for_the_caller", {})


@tool
async def calls_with_wrong_arguments(ctx: Context) -> Any:
    """Call another tool with wrong arguments."""
    return await ctx.fastmcp.call_tool("gives_number", {"value": "no number"})


@tool
async def calls_nobody(ctx: Context) -> Any:
    """Call a tool that does not exist."""
    return await ctx.fastmcp.call_tool("no_such_tool", {})


@tool
async def reports_and_fails(ctx: Context) -> str:
    """Send a log message, then raise an error."""
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


def _count(key: str, end: End) -> Any:
    RUNS[key] += 1
    if end in _ERRORS:
        raise type(_ERRORS[end])(*_ERRORS[end].args)
    if end == "invalid":
        _Strict.model_validate({})
    return _VALUES.get(end)


@tool(timeout=0.5)
async def counts(key: str, end: End = "text") -> Any:
    """Count the run, then end as the argument `end` says."""
    value = _count(key, end)
    if end == "late":
        await asyncio.Event().wait()
    return value


@tool(timeout=5)
def counts_in_a_thread(key: str, end: End = "text") -> Any:
    """Count the run, then end as the argument `end` says, in a thread."""
    return _count(key, end)


@tool(output_schema={"type": "object"})
async def counts_against_its_schema(key: str) -> int:
    """Count the run, then return a value that the schema does not allow."""
    RUNS[key] += 1
    return 1
