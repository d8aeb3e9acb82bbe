"""The error for a resource whose function says that it does not exist, with the function's own text.

When no resource matches a URI, FastMCP sends the code -32602 in every protocol version (SEP-2164). When a resource's
function raises `NotFoundError`, FastMCP without this module logs a traceback and sends -32603, the code of a server
failure.
"""

import functools
import logging
from contextvars import ContextVar
from typing import Any

from fastmcp.exceptions import NotFoundError, ResourceError
from fastmcp.resources import ResourceResult
from fastmcp.resources.template import FunctionResourceTemplate
from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

from anyreplica.components.containment import AsyncFunction

_BEGUN: ContextVar[bool] = ContextVar("resource_function_begun", default=False)
"""True if the resource's function was called; False if its arguments were refused before the call."""


class ResourceNotFound(ResourceError, NotFoundError):
    """A `NotFoundError` from a resource's function. FastMCP keeps its text and logs its traceback at DEBUG only."""


def tell_not_found(fn: AsyncFunction) -> AsyncFunction:
    """Wrap a resource's function so that its `NotFoundError` reaches the client as a `ResourceNotFound`."""

    @functools.wraps(fn)
    async def telling(*args: Any, **kwargs: Any) -> Any:
        _BEGUN.set(True)
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
        _BEGUN.set(False)
        try:
            return await super().read(arguments)
        except ValueError:  # the base class of pydantic's ValidationError
            if _BEGUN.get():
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
