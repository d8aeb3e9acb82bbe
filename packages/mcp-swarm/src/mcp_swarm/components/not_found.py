"""What a client reads when a resource isn't there: the error that its protocol version has for it.

Up to 2025-11-25 that is -32002; 2026-07-28 has retired this code for -32602 (SEP-2164). FastMCP sends -32602 in every
version for a URI that nothing matches. When a resource's own function raises `NotFoundError`, FastMCP logs a traceback
and sends -32603, which says that the server has failed.
"""

import functools
import logging
from contextvars import ContextVar
from typing import Any

from fastmcp.exceptions import DisabledError, NotFoundError, ResourceError
from fastmcp.resources import ResourceResult
from fastmcp.resources.template import FunctionResourceTemplate
from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp_types import INVALID_PARAMS
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from mcp_swarm.components.containment import AsyncFunction

RESOURCE_NOT_FOUND = -32002
"""The error code of the handshake protocols, of which the SDK has no constant."""

_BEGUN: ContextVar[bool] = ContextVar("resource_function_begun", default=False)
"""True if the resource's function was called; False if its arguments were refused before that."""


class ResourceNotFound(ResourceError, NotFoundError):
    """A `NotFoundError` of a resource's function. FastMCP doesn't mask it, and logs its traceback at DEBUG only."""


def tell_not_found(fn: AsyncFunction) -> AsyncFunction:
    """Wrap a resource's function: its `NotFoundError` reaches the client, as a `ResourceNotFound`."""

    @functools.wraps(fn)
    async def telling(*args: Any, **kwargs: Any) -> Any:
        _BEGUN.set(True)
        try:
            return await fn(*args, **kwargs)
        except NotFoundError as error:
            raise ResourceNotFound(str(error), log_level=logging.DEBUG) from None

    return telling


class TypedTemplate(FunctionResourceTemplate):
    """A template that finds no resource for a value that isn't of its parameter's type."""

    @classmethod
    def of(cls, template: FunctionResourceTemplate) -> "TypedTemplate":
        """The same template, of this class."""
        made = cls(**dict(template))
        made.__pydantic_private__ = template.__pydantic_private__
        return made

    async def read(self, arguments: dict[str, Any]) -> str | bytes | ResourceResult:
        """Read the resource; raises ResourceNotFound if an argument can't be of its parameter's type."""
        _BEGUN.set(False)
        try:
            return await super().read(arguments)
        except ValueError:  # pydantic's ValidationError is one
            if _BEGUN.get():
                raise
            raise ResourceNotFound("a parameter's value is of the wrong type", log_level=logging.DEBUG) from None


async def answer_not_found(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """SDK middleware: gives the MCPError for a missing resource the code of the request's protocol version."""
    try:
        return await call_next(ctx)
    except MCPError as error:
        missing = error.__cause__
        if ctx.method != "resources/read" or not isinstance(missing, NotFoundError | DisabledError):
            raise
        code = RESOURCE_NOT_FOUND if ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS else INVALID_PARAMS
        told = isinstance(missing, ResourceNotFound) and str(missing)
        raise MCPError(code, f"Resource not found: {missing}" if told else error.message, error.data) from missing
