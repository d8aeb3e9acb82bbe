"""The outcome of a call that the fast path started and the FastMCP path answers.

A tool's body never runs twice. The fast path cannot write every outcome: it writes no exceptions and no unusual kinds
of results. The fast path hands such an outcome over to the FastMCP path. The FastMCP path treats the call like any
other call, but it does not run the body, or the middleware around the body, again. It uses the outcome instead. So the
same code writes the errors and results of both paths.

`ResourceNotFound` is here, too: a function of a resource may say that the resource does not exist. When no resource
matches a URI, FastMCP sends the code -32602 in every protocol version (SEP-2164). But when a function raises
`NotFoundError`, FastMCP alone logs a traceback and sends -32603, the code of a server failure.
"""

import functools
import logging
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from fastmcp.exceptions import NotFoundError, ResourceError, ToolError
from fastmcp.exceptions import ValidationError as InvalidArguments
from fastmcp.resources import ResourceResult
from fastmcp.resources.template import FunctionResourceTemplate
from fastmcp.tools import FunctionTool, Tool, ToolResult
from fastmcp.tools.base import InputRequiredToolResult
from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp_types import CallToolResult, InputRequiredResult
from pydantic import PrivateAttr

from anyreplica.components import arguments as arguments_
from anyreplica.components.containment import AsyncFunction, Function, ResultCheck
from anyreplica.components.json_results import check_value, no_json, serializer_of
from anyreplica.components.output_schema import OutputSchema


@dataclass(slots=True)
class Outcome:
    """The value that a call returned or the exception that it raised, and whether the exception is already logged."""

    value: Any = None
    error: BaseException | None = None
    logged: bool = False

    def unwrap(self) -> Any:
        """Return the value, or raise the exception."""
        if self.error is not None:
            raise self.error
        return self.value


@dataclass(frozen=True, slots=True)
class Handover:
    """The outcomes that the fast path hands over to the FastMCP path.

    `after_body` is the outcome of the tool's body. `after_middleware` is the outcome of the body and all registered
    middleware around it. If both are None, the FastMCP path runs the whole call.
    """

    after_body: Outcome | None = None
    after_middleware: Outcome | None = None

    def forget_frames(self) -> None:
        """Release the frames of the errors after the call was answered."""
        for outcome in filter(None, (self.after_body, self.after_middleware)):
            forget_frames(outcome.error)


def forget_frames(error: BaseException | None) -> None:
    """Remove the tracebacks of an error, of its causes and of its contexts.

    A traceback refers to the frames that the error passed, and so to all their variables. If one of these variables is
    the error itself, there is a reference cycle. The garbage collector finds such a cycle late, and the arguments of a
    call may have megabytes.
    """
    waiting, seen = [error], set[int]()
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            each.__traceback__ = None
            waiting += (each.__cause__, each.__context__)


BODY_OUTCOME: ContextVar[Outcome | None] = ContextVar("body_outcome", default=None)
"""`Handover.after_body` of the current call."""

CALL_OUTCOME: ContextVar[Outcome | None] = ContextVar("call_outcome", default=None)
"""`Handover.after_middleware` of the current call."""


class InterceptedTool(Tool):
    """A tool whose calls take the FastMCP path, because an extension of the protocol may answer them."""


class PlannedTool(FunctionTool):
    """A tool that can have a call plan. Its body does not run when the fast path has already run it."""

    _seconds: float | None = PrivateAttr(None)
    _output: OutputSchema | None = PrivateAttr(None)
    _unchecked: tuple[Function, ResultCheck] | None = PrivateAttr(None)

    @classmethod
    def of(
        cls, tool: FunctionTool, fn: Callable[..., Any], unchecked: tuple[Function, ResultCheck] | None = None
    ) -> "PlannedTool":
        """Return a planned tool like `tool` with another function.

        `CallLimits` applies the tool's time limit instead of FastMCP, so that every path has the same error for it.

        Args:
            unchecked: the function without the check of its result, and the check. None: the check is needed always.
        """
        planned = cls(**{**dict(tool), "fn": fn, "timeout": None})
        planned._seconds = tool.timeout
        planned._unchecked = unchecked
        if planned.output_schema is not None:
            planned._output = OutputSchema(planned.output_schema, planned)
        return planned

    @property
    def seconds(self) -> float | None:
        """Time limit of the tool in seconds, from its author. None: the setting CALL_TIMEOUT_SECONDS applies."""
        return self._seconds

    @property
    def output(self) -> OutputSchema | None:
        """The output schema, which each result must match. None: the tool has no output schema."""
        return self._output

    @property
    def direct_function(self) -> Function:
        """The function for the fast path, which writes a valid result without checking it first."""
        return self.fn if self._unchecked is None else self._unchecked[0]

    async def check_result(self, value: Any) -> Any:
        """Complete and check a result of `direct_function`, see `containment.result_check`."""
        return value if self._unchecked is None else await self._unchecked[1](value)

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Run the tool, or use the outcome from the fast path."""
        outcome = BODY_OUTCOME.get()
        if outcome is None:
            arguments_.check(self, arguments)
            try:
                return await super().run(arguments)
            except InvalidArguments as error:
                known = self.parameters.get("properties", {})
                raise arguments_.with_known(error, arguments, known) from error.__cause__
        BODY_OUTCOME.set(None)  # for this call only: if the tool calls another tool, that tool must run
        return self.convert(outcome.unwrap())

    def convert_result(self, raw_value: Any) -> ToolResult:
        """Convert a returned value to a tool result.

        Raises:
            ToolError: the value does not match the output schema, or contains NaN or an infinity.
        """
        output, kind = self._output, type(raw_value)
        if kind is str and (output is None or output.is_text):
            return super().convert_result(raw_value)
        try:
            result = super().convert_result(raw_value)
        except ValueError:
            if output is None:
                raise
            raise output.error(f"{kind.__name__} is not a JSON object") from None
        is_result = isinstance(raw_value, ToolResult | CallToolResult)
        if output is not None and not result.is_error and (is_result or not output.has_type(raw_value)):
            output.check(result.structured_content)
        if not is_result:
            self._check_numbers(raw_value)
        return result

    def _check_numbers(self, value: Any) -> None:
        """Raise ToolError if a model contains NaN or an infinity, for which pydantic would write `null`."""
        with suppress(ValueError):
            plain = serializer_of(self.return_type)(value, mode="json")
            try:
                check_value(plain)
            except ValueError:
                raise ToolError(no_json(f"tool {self.name!r}", plain), log_level=logging.DEBUG) from None

    def convert(self, value: Any) -> ToolResult:
        """Convert a returned value, or a question to the client; raise the same errors as `convert_result`."""
        return InputRequiredToolResult(value) if isinstance(value, InputRequiredResult) else self.convert_result(value)


_RESOURCE_STARTED: ContextVar[bool] = ContextVar("resource_function_started", default=False)
"""True if the resource's function was called; False if its arguments were refused before the call."""


class ResourceNotFound(ResourceError, NotFoundError):
    """A `NotFoundError` from a resource's function. FastMCP keeps its text and logs its traceback at DEBUG only."""


def tell_not_found(fn: AsyncFunction) -> AsyncFunction:
    """Wrap a resource's function so that its `NotFoundError` reaches the client as a `ResourceNotFound`."""

    @functools.wraps(fn)
    async def telling(*args: Any, **kwargs: Any) -> Any:
        _RESOURCE_STARTED.set(True)
        try:
            return await fn(*args, **kwargs)
        except NotFoundError as error:
            raise ResourceNotFound(str(error), log_level=logging.DEBUG) from None

    return telling


class TypedTemplate(FunctionResourceTemplate):
    """A resource template that answers "not found" if a parameter in the URI has the wrong type."""

    @classmethod
    def of(cls, template: FunctionResourceTemplate) -> "TypedTemplate":
        """Return a copy of the template as an instance of this class."""
        copy = cls(**dict(template))
        copy.__pydantic_private__ = template.__pydantic_private__
        return copy

    async def read(self, arguments: dict[str, Any]) -> str | bytes | ResourceResult:
        """Read the resource; raise ResourceNotFound if an argument does not have the type of its parameter."""
        _RESOURCE_STARTED.set(False)
        try:
            return await super().read(arguments)
        except ValueError:  # the base class of pydantic's ValidationError
            if _RESOURCE_STARTED.get():
                raise
            text = "a parameter in the URI has a value of the wrong type"
            raise ResourceNotFound(text, log_level=logging.DEBUG) from None


async def answer_not_found(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Put the text of a `ResourceNotFound` into FastMCP's error for a missing resource. (SDK middleware.)"""
    try:
        return await call_next(ctx)
    except MCPError as error:
        missing = error.__cause__
        if ctx.method != "resources/read" or not isinstance(missing, ResourceNotFound) or not str(missing):
            raise
        raise MCPError(error.code, f"Resource not found: {missing}", error.data) from missing
