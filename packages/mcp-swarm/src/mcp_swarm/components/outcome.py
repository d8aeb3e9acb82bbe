"""The outcome of a call that the fast lane began and the full lane answers.

A tool's body never runs twice. The fast lane can't write every outcome (not an exception, nor an unusual kind of
result). It hands such an outcome over to the full lane. The full lane treats the call like any other, but it doesn't
run the body, or the middleware around it, again: it uses the outcome. So the same code maps the errors and results of
both lanes.
"""

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from fastmcp.tools import FunctionTool, ToolResult
from fastmcp.tools.base import InputRequiredToolResult
from mcp_types import InputRequiredResult

from mcp_swarm.components import arguments as arguments_


class Outcome:
    """A value that was returned, or an exception that was raised.

    Args:
        logged: whether the log has it already.
    """

    __slots__ = ("error", "logged", "value")

    def __init__(self, value: Any = None, error: BaseException | None = None, *, logged: bool = False) -> None:
        self.value = value
        self.error = error
        self.logged = logged

    def give(self) -> Any:
        """Return or raise it."""
        if self.error is not None:
            raise self.error
        return self.value


@dataclass(frozen=True, slots=True)
class Handover:
    """The outcomes that the fast lane hands to the full lane. If both are None, the full lane runs the whole call."""

    body: Outcome | None = None
    """What has come of the tool's body."""
    around: Outcome | None = None
    """What has come of the tool's body and all registered middleware around it."""

    def forget_frames(self) -> None:
        """Release the frames of the errors, when the call has been answered."""
        for outcome in (self.body, self.around):
            if outcome is not None:
                forget_frames(outcome.error)


def forget_frames(error: BaseException | None) -> None:
    """Take the tracebacks off an error and off those that led to it.

    A traceback refers to the frames that the error passed, and so to all their variables. If one of these is the error
    itself, that is a reference cycle. The garbage collector finds it late, and a call's arguments may have megabytes.
    """
    waiting, seen = [error], set[int]()
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            each.__traceback__ = None
            waiting += (each.__cause__, each.__context__)


BODY: ContextVar[Outcome | None] = ContextVar("body_outcome", default=None)
"""`Handover.body` of the call that is being answered."""

CALL: ContextVar[Outcome | None] = ContextVar("call_outcome", default=None)
"""`Handover.around` of the call that is being answered."""


class PlannedTool(FunctionTool):
    """A tool whose body isn't run when its outcome is known."""

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Run the tool, or continue with what has come of it."""
        outcome = BODY.get()
        if outcome is None:
            arguments_.check(self, arguments)
            return await super().run(arguments)
        BODY.set(None)  # only this call's: a component that calls another must run that one
        return self.convert(outcome.give())

    def convert(self, value: Any) -> ToolResult:
        """What a value that the body returned is to FastMCP.

        Raises:
            ToolError: the value doesn't fit the declared output schema.
        """
        return InputRequiredToolResult(value) if isinstance(value, InputRequiredResult) else self.convert_result(value)
