"""The private names of FastMCP and the MCP SDK that serving a request needs.

Only the modules of this folder use private names of these packages.
`tests/test_private_names.py` lists the names. When an upgrade moves one of them, the test fails and says which one.
"""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from typing import Any, cast

from fastmcp import Context, FastMCP
from fastmcp.exceptions import AuthorizationError, FastMCPError
from fastmcp.server import context as _context
from fastmcp.server.dependencies import (
    _CurrentContext,
    _OptionalCurrentContext,
    bind_request_context,
    extract_version_spec,
    without_injected_parameters,
)
from fastmcp.server.extensions import ServerExtension
from fastmcp.server.low_level import LowLevelServer
from fastmcp.server.middleware import MiddlewareContext
from fastmcp.tools import FunctionTool
from fastmcp.tools.function_tool import _ToolBodyError
from fastmcp.utilities.types import get_cached_typeadapter
from mcp.server._otel import OpenTelemetryMiddleware
from mcp.server.connection import Connection
from mcp.server.context import ServerMiddleware, ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.runner import ServerRunner
from mcp.shared.dispatcher import Outbound
from pydantic import ValidationError
from uncalled_for import CycleError, frame_scope, get_dependency_parameters
from uncalled_for.resolution import _Depends  # type: ignore[attr-defined]

from anyreplica.mcp.call import Call
from anyreplica.mcp.compat.contexts import connection_of
from anyreplica.mcp.compat.dispatch import Dispatch


def low_level(mcp: FastMCP) -> LowLevelServer[Any]:
    """Return the SDK's server inside a FastMCP server."""
    return mcp._mcp_server


def has_random_name(mcp: FastMCP) -> bool:
    """Return whether FastMCP made up the server's name. Each replica would then have another one."""
    return re.fullmatch(rf"{type(mcp).__name__}-[0-9a-f]{{4}}", mcp.name) is not None


def rename(mcp: FastMCP, name: str) -> None:
    """Give a server another name."""
    low_level(mcp).name = name


@contextmanager
def refusing_duplicates(mcp: FastMCP) -> Iterator[None]:
    """Inside the `with` block, FastMCP raises ValueError if a component is added whose name exists."""
    provider = mcp.local_provider
    before, provider._on_duplicate = provider._on_duplicate, "error"
    try:
        yield
    finally:
        provider._on_duplicate = before


def seal_states(mcp: FastMCP, security: RequestStateSecurity, audience: str) -> None:
    """Choose how request states are sealed (encrypted and authenticated), unless the server's author has chosen it.

    Args:
        audience: the server's name. Each sealed state contains it.
    """
    if mcp._request_state_security is None:
        boundary = RequestStateBoundary(security, default_audience=audience)
        chain = low_level(mcp).middleware
        chain[:] = [boundary if isinstance(each, RequestStateBoundary) else each for each in chain]


def insert_middleware(mcp: FastMCP, middleware: ServerMiddleware[Any]) -> None:
    """Add SDK middleware outside of all other, except the SDK's spans."""
    chain = low_level(mcp).middleware
    chain.insert(1 if chain and isinstance(chain[0], OpenTelemetryMiddleware) else 0, middleware)


def runner_of(mcp: FastMCP, state: Any, version: str, client: tuple[Any, Any] = (None, None)) -> ServerRunner[Any]:
    """Return the SDK's runner for a message that belongs to no call.

    Args:
        client: the information and the capabilities of the client, as the stateless protocol sends them, or None.
    """
    return ServerRunner(low_level(mcp), Connection.from_envelope(version, *client), state)


def runner_of_call(mcp: FastMCP, state: Any, call: Call, dispatch: Dispatch) -> ServerRunner[Any]:
    """Return the SDK's runner for one call."""
    return ServerRunner(low_level(mcp), connection_of(call, dispatch.standalone), state)


def request_context_of(context: MiddlewareContext[Any]) -> ServerRequestContext[Any, Any] | None:
    """Return the SDK's context of the request that a middleware handles. None: there is no request."""
    own = context.fastmcp_context.request_context if context.fastmcp_context else None
    return None if own is None else own._srctx


def outbound_of(request: ServerRequestContext[Any, Any]) -> Outbound | None:
    """Return the channel on which a request to the client belongs to the call of `request`.

    None: code of the server's author has made the request, for example to run a middleware in a task of its own.
    """
    return getattr(request.session, "_request_outbound", None)


def call_of(request: ServerRequestContext[Any, Any]) -> Call | None:
    """Return the call of a request. None: the SDK's own endpoint answers the request."""
    outbound = outbound_of(request)
    return outbound.call if isinstance(outbound, Dispatch) else None


def wire(mcp: FastMCP, method: str, version: str) -> Callable[[Any], dict[str, Any]]:
    """Return a function that converts a handler's result to the form of a protocol version.

    The function validates the result, drops the fields that the version does not have, and adds those that it requires.
    """
    return partial(runner_of(mcp, None, version)._serialize, method, version)


def compiled(tool: FunctionTool, own: Callable[..., Any]) -> Callable[[Mapping[str, Any]], Awaitable[Any]]:
    """Return a function that validates arguments, injects dependencies and calls the tool's function.

    This preparation happens once. `FunctionTool.run` prepares these steps again in each call.

    Args:
        own: the tool's function, or another one with the same signature.

    Raises (the returned function, before the tool's body starts):
        pydantic.ValidationError: the arguments are invalid.
    """
    fn = without_injected_parameters(own, run_in_thread=tool.run_in_thread)
    if fn is not own:
        fn = _injected(own, fn)
    return cast("Callable[[Mapping[str, Any]], Awaitable[Any]]", get_cached_typeadapter(fn).validator.validate_python)


def _injected(fn: Callable[..., Any], wrapper: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that injects dependencies like FastMCP's `wrapper`. For a tool that needs only its Context, it
    opens no context manager.

    The function has the signature of the wrapper: its parameters are the tool's arguments only.
    """
    wanted = get_dependency_parameters(fn)
    if all(isinstance(each, _CurrentContext | _OptionalCurrentContext) for each in wanted.values()):
        current = _context._current_context.get

        async def injected(**arguments: Any) -> Any:
            return await fn(**arguments, **dict.fromkeys(wanted, current()))
    else:

        async def injected(**arguments: Any) -> Any:
            _Depends.cache.set({})
            async with AsyncExitStack() as stack:
                _Depends.stack.set(stack)
                with frame_scope(fn, arguments) as frame:
                    return await fn(**arguments, **{name: await _resolved(fn, frame, name) for name in wanted})

    for name in ("__signature__", "__annotations__", "__name__", "__doc__", "__module__", "__qualname__"):
        setattr(injected, name, getattr(wrapper, name))
    return injected


async def _resolved(fn: Callable[..., Any], frame: Any, name: str) -> Any:
    """Return the value of a dependency; raise the same errors as FastMCP."""
    try:
        return await frame.resolve(name)
    except (FastMCPError, CycleError):
        raise
    except Exception as error:
        raise RuntimeError(f"Failed to resolve dependency '{name}' for {fn.__name__}") from error


def body_error(error: BaseException) -> BaseException:
    """Return an error of a tool's body as FastMCP raises it.

    FastMCP wraps pydantic's ValidationError. Otherwise an error in the body would look like invalid arguments.
    """
    if not isinstance(error, ValidationError):
        return error
    wrapped = _ToolBodyError(str(error))
    wrapped.__cause__ = error
    return wrapped


def injects(tool: FunctionTool) -> bool:
    """Return whether a tool has parameters for Context or dependencies."""
    return without_injected_parameters(tool.fn, run_in_thread=tool.run_in_thread) is not tool.fn


async def has_resource(mcp: FastMCP, request: ServerRequestContext[Any, Any], uri: str) -> bool:
    """Return whether the caller of a request may see a resource or a template of this URI, as for `resources/read`."""
    with bind_request_context(request):
        async with Context(fastmcp=mcp):
            look_up = getattr(mcp, "_lookup_resource", None)
            if look_up is None:  # before FastMCP 4.1.2
                resource = await mcp.get_resource(uri)
                exists = resource is not None
            else:
                resource, exists = await look_up(uri)
            if exists:  # since FastMCP 4.1.2, a hidden resource also hides a template of the same URI
                return resource is not None
            try:
                return await mcp.get_resource_template(uri) is not None
            except AuthorizationError:
                return False


def withdraw_method(mcp: FastMCP, method: str) -> None:
    """Remove the handler of a method. The server's capabilities follow from its handlers."""
    low_level(mcp)._request_handlers.pop(method, None)


def extensions_of(mcp: FastMCP) -> dict[str, ServerExtension]:
    """Return the protocol extensions that the server announces and uses in calls, by identifier.

    FastMCP adds extensions only before the server starts, and it never removes one.
    """
    return mcp._extensions


def replace_extension(mcp: FastMCP, extension: ServerExtension) -> None:
    """Use a protocol extension instead of the one with the same identifier."""
    mcp._extensions.pop(extension.identifier, None)
    mcp.add_extension(extension)


def selected_version(meta: Any) -> str | None:
    """Return the version of a tool that a call's `_meta` selects; None: the highest one."""
    return extract_version_spec(meta) if isinstance(meta, dict) else None
