"""The private names of FastMCP and the MCP SDK that serving a request needs.

Only the modules of this folder, `components/compat.py` and `features/login/compat.py` use private names.
`tests/test_private_names.py` lists the names. When an upgrade moves one of them, the test fails and says which one.
"""

import re
import weakref
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from contextvars import ContextVar
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, cast

from fastmcp import Context, FastMCP
from fastmcp.exceptions import AuthorizationError, FastMCPError
from fastmcp.server import context as _context
from fastmcp.server import dependencies as _dependencies
from fastmcp.server.dependencies import (
    FastMCPRequestContext,
    _CurrentContext,
    _OptionalCurrentContext,
    bind_request_context,
    extract_version_spec,
    fastmcp_request_ctx,
    without_injected_parameters,
)
from fastmcp.server.extensions import ServerExtension
from fastmcp.server.low_level import LowLevelServer
from fastmcp.server.middleware import MiddlewareContext
from fastmcp.telemetry import _SUPPRESS_KEY
from fastmcp.tools import FunctionTool
from fastmcp.tools.function_tool import _ToolBodyError
from fastmcp.utilities.types import get_cached_typeadapter
from mcp.server._otel import OpenTelemetryMiddleware
from mcp.server.connection import Connection
from mcp.server.context import ServerMiddleware, ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.runner import ServerRunner, _extract_meta
from mcp.server.session import ServerSession
from mcp.shared.dispatcher import Outbound
from opentelemetry import context as tracing
from pydantic import ValidationError
from starlette.requests import Request as HttpRequest
from uncalled_for import CycleError, frame_scope, get_dependency_parameters
from uncalled_for.resolution import _Depends  # type: ignore[attr-defined]

from anyreplica.mcp.call import Call
from anyreplica.mcp.compat.connection import needs_cleanup
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
    return ServerRunner(low_level(mcp), _connection(call, dispatch.standalone), state)


def _connection(call: Call, outbound: Outbound) -> Connection:
    """Return the SDK's connection for one call."""
    if call.modern:
        return Connection.from_envelope(call.version, *call.client, outbound=outbound)
    return call.channel.connection(call, outbound)


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


def left_open() -> Connection | None:
    """Return the connection of the running call, if a middleware has left there what must end with the call."""
    context = fastmcp_request_ctx.get(None)
    session = None if context is None else vars(context).get("session")
    connection: Connection | None = getattr(session, "_connection", None)
    return connection if connection is not None and needs_cleanup(connection) else None


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


def serve_over_http(mcp: FastMCP) -> None:
    """Set FastMCP's context variables for all requests: this process serves only `mcp`, and only over HTTP."""
    for variable, value in _process_wide(mcp).items():
        variable.set(value)


def _process_wide(mcp: FastMCP) -> dict[ContextVar[Any], Any]:
    return {
        _context._current_transport: "streamable-http",
        _dependencies._current_server: weakref.ref(mcp),
    }


class Binding:
    """The source of FastMCP's request contexts. The parts of a context are made only when a tool reads them.

    Most tools never use their Context. Making all parts of a Context takes longer than calling the tool.

    Args:
        mcp: the server that has the tool.
        state: what the lifespan of the root server has returned.
        root: the server that got the request.
    """

    __slots__ = ("_per_call", "_values", "mcp", "state")

    def __init__(self, mcp: FastMCP, state: Any, root: FastMCP) -> None:
        self.mcp = mcp
        self.state = state
        self._values = _process_wide(mcp)
        # Some variables have their values in the whole process. Calls do not set these again.
        values = {**self._values, **(root._shared_context_snapshot or {})}
        self._per_call = tuple((each.set, value) for each, value in values.items() if each.get(None) is not value)

    def bind(self, call: Call) -> Context:
        """Set the context variables of the running task for a call, and return the call's Context."""
        fastmcp_request_ctx.set(LazyRequestContext(self, call))
        for bind, value in self._per_call:
            bind(value)
        context = CallContext(self.mcp)
        _context._current_context.set(context)
        return context

    @contextmanager
    def within(self) -> Iterator[None]:
        """Inside the `with` block, the Context is one of this server, with the request and state of the one around."""
        around = _context._current_context.get()
        context = CallContext(self.mcp)
        tokens = [
            (each, each.set(value)) for each, value in (*self._values.items(), (_context._current_context, context))
        ]
        if around is not None:
            context._request_state = around._request_state
        try:
            yield
        finally:
            for variable, token in reversed(tokens):
                variable.reset(token)


class CallContext(Context):
    """A FastMCP Context that makes its parts at their first use."""

    _session = None
    _task_id = None
    _origin_request_id = None
    _task_input_responses = None
    _task_request_state = None

    def __init__(self, mcp: FastMCP) -> None:
        self._fastmcp = weakref.ref(mcp)

    @cached_property
    def _tokens(self) -> list[Any]:  # type: ignore[override]
        return []

    @cached_property
    def _request_state(self) -> dict[str, Any]:  # type: ignore[override]
        return {}


class LazyRequestContext(FastMCPRequestContext):
    """FastMCP's request context, as `bind_request_context` makes it, but each part is made at its first use."""

    protocol_version = property(attrgetter("_call.version"))
    lifespan_context = property(attrgetter("_binding.state"))
    close_sse_stream = None  # nothing to close: the event stream of a reply ends with the result

    def __init__(self, binding: Binding, call: Call) -> None:
        self._binding = binding
        self._call = call

    @cached_property
    def _dispatch(self) -> Dispatch:
        return Dispatch(self._call.request, self._call.scope, self._call)

    @cached_property
    def request(self) -> HttpRequest:  # type: ignore[override]
        return self._dispatch.http_request

    @cached_property
    def session(self) -> ServerSession:  # type: ignore[override]
        dispatch = self._dispatch
        return ServerSession(dispatch, _connection(self._call, dispatch.standalone), request_meta=self._meta)

    @cached_property
    def _srctx(self) -> ServerRequestContext[Any, Any]:  # type: ignore[override]
        request = self._call.request
        return ServerRequestContext(
            session=self.session,
            lifespan_context=self._binding.state,
            protocol_version=self._call.version,
            method=request.method,
            params=request.params,
            request_id=request.id,
            meta=_extract_meta(request.params),
            request=self.request,
        )

    @property
    def _meta(self) -> Any:
        meta = (self._call.request.params or {}).get("_meta")
        return meta if isinstance(meta, Mapping) else None

    @property
    def request_id(self) -> str:  # type: ignore[override]
        return str(self._call.request.id)

    @property
    def meta(self) -> dict[str, Any] | None:  # type: ignore[override]
        meta = self._meta
        return None if meta is None else dict(meta)


def suppress_spans() -> None:
    """Let FastMCP make no spans in the rest of this task, as its `suppress_fastmcp_telemetry` does in a block."""
    tracing.attach(tracing.set_value(_SUPPRESS_KEY, True))
