"""The outcome of a call that the fast path began and the FastMCP path answers.

A tool's body never runs twice. The fast path can't write every outcome (not an exception, nor an unusual kind of
result). It hands such an outcome over to the FastMCP path. The FastMCP path treats the call like any other, but it
doesn't run the body, or the middleware around it, again: it uses the outcome. So the same code maps the errors and
results of both paths.
"""

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from fastmcp.tools import FunctionTool, ToolResult
from fastmcp.tools.base import InputRequiredToolResult
from mcp_types import InputRequiredResult

from mcp_swarm.components import arguments as arguments_


@dataclass(slots=True)
class Outcome:
    """A value that was returned, or an exception that was raised, and whether the log has that already."""

    value: Any = None
    error: BaseException | None = None
    logged: bool = False

    def give(self) -> Any:
        """Return or raise it."""
        if self.error is not None:
            raise self.error
        return self.value


@dataclass(frozen=True, slots=True)
class Handover:
    """What the fast path hands to the FastMCP path. If both are None, the FastMCP path runs the whole call.

    `body` has come of the tool's body, `around` of the body and all registered middleware around it.
    """

    body: Outcome | None = None
    around: Outcome | None = None

    def forget_frames(self) -> None:
        """Release the frames of the errors, when the call has been answered."""
        for outcome in filter(None, (self.body, self.around)):
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


BODY_OUTCOME: ContextVar[Outcome | None] = ContextVar("body_outcome", default=None)
"""`Handover.body` of the call that is being answered."""

CALL_OUTCOME: ContextVar[Outcome | None] = ContextVar("call_outcome", default=None)
"""`Handover.around` of the call that is being answered."""


class PlannedTool(FunctionTool):
    """A tool whose body isn't run when its outcome is known."""

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Run the tool, or continue with what has come of it."""
        outcome = BODY_OUTCOME.get()
        if outcome is None:
            arguments_.check(self, arguments)
            return await super().run(arguments)
        BODY_OUTCOME.set(None)  # only this call's: a component that calls another must run that one
        return self.convert(outcome.give())

    def convert(self, value: Any) -> ToolResult:
        """What a returned value is to FastMCP; raises ToolError if it doesn't fit the declared output schema."""
        return InputRequiredToolResult(value) if isinstance(value, InputRequiredResult) else self.convert_result(value)
