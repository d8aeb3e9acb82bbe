"""The one module that touches private names of FastMCP and the MCP SDK.

`tests/mcp/test_sdk.py` names each of them, so that an upgrade that moves one fails with a plain sentence.
"""

import weakref
from collections.abc import Awaitable, Callable, Mapping, Sized
from contextlib import AsyncExitStack
from contextvars import ContextVar
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, cast

from fastmcp import Context, FastMCP
from fastmcp.exceptions import FastMCPError
from fastmcp.server import context as _context
from fastmcp.server import dependencies as _dependencies
from fastmcp.server.dependencies import (
    FastMCPRequestContext,
    _CurrentContext,
    _OptionalCurrentContext,
    fastmcp_request_ctx,
    without_injected_parameters,
)
from fastmcp.server.extensions import ServerExtension
from fastmcp.server.low_level import LowLevelServer
from fastmcp.tools import FunctionTool
from fastmcp.tools import base as _tools
from fastmcp.tools.function_tool import _ToolBodyError
from fastmcp.utilities.components import FastMCPComponent
from fastmcp.utilities.types import get_cached_typeadapter
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.runner import ServerRunner, _extract_meta
from pydantic import ValidationError
from uncalled_for import CycleError, frame_scope, get_dependency_parameters
from uncalled_for.resolution import _Depends  # type: ignore[attr-defined]

from mcp_swarm.mcp.call import Call
from mcp_swarm.mcp.dispatch import Dispatch


class LeavesToolsAlone(ServerExtension):
    """An extension that takes part in no call of a planned tool."""


def low_level(mcp: FastMCP) -> LowLevelServer[Any]:
    """The SDK's server beneath FastMCP's."""
    return mcp._mcp_server


def adopt(mcp: FastMCP, security: RequestStateSecurity, audience: str, *, mask_errors: bool) -> None:
    """Set what FastMCP takes in its constructor only, and replicas must agree on.

    Args:
        security: how request states are sealed, unless the author has chosen a way.
        audience: the server's name, which is part of each sealed state.
        mask_errors: whether callers read no more than that a component failed.
    """
    mcp._mask_error_details = mask_errors
    mcp._on_duplicate = mcp.local_provider._on_duplicate = "error"
    if mcp._request_state_security is None:
        boundary = RequestStateBoundary(security, default_audience=audience)
        chain = low_level(mcp).middleware
        chain[:] = [boundary if isinstance(each, RequestStateBoundary) else each for each in chain]


def runner_of(mcp: FastMCP, state: Any, version: str, client: tuple[Any, Any] = (None, None)) -> ServerRunner[Any]:
    """The SDK's driver of a connection, which knows of its client what this one request tells (`Call.client`)."""
    return ServerRunner(low_level(mcp), Connection.from_envelope(version, *client), state)


def needs_cleanup(connection: Connection) -> bool:
    """Whether somebody has pushed something onto a connection's exit stack."""
    return bool(connection.exit_stack._exit_callbacks)  # type: ignore[attr-defined]


def wire(mcp: FastMCP, method: str, version: str) -> Callable[[Any], dict[str, Any]]:
    """What makes of a handler's result the one that is sent in a protocol version: validated, sieved, stamped."""
    return partial(runner_of(mcp, None, version)._serialize, method, version)


def compiled(tool: FunctionTool) -> Callable[[Mapping[str, Any]], Awaitable[Any]]:
    """What `FunctionTool.run` looks up on each call: validate arguments, inject, call the function.

    Raises (the returned function, before the tool's body starts):
        pydantic.ValidationError: the arguments don't fit.
    """
    fn = without_injected_parameters(tool.fn, run_in_thread=tool.run_in_thread)
    if fn is not tool.fn:
        fn = _injected(tool.fn, fn)
    return cast("Callable[[Mapping[str, Any]], Awaitable[Any]]", get_cached_typeadapter(fn).validator.validate_python)


def _injected(fn: Callable[..., Any], wrapper: Callable[..., Any]) -> Callable[..., Any]:
    """What FastMCP's wrapper does, which takes what a caller gives; without the context managers it is made of."""
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
    """A dependency's value; what goes wrong reads as in FastMCP."""
    try:
        return await frame.resolve(name)
    except (FastMCPError, CycleError):
        raise
    except Exception as error:
        raise RuntimeError(f"Failed to resolve dependency '{name}' for {fn.__name__}") from error


def body_error(error: BaseException) -> BaseException:
    """What FastMCP makes of an error that a tool's body raised: pydantic's own would tell of wrong arguments."""
    if not isinstance(error, ValidationError):
        return error
    wrapped = _ToolBodyError(str(error))
    wrapped.__cause__ = error
    return wrapped


def injects(tool: FunctionTool) -> bool:
    """Whether a tool wants a Context or dependencies."""
    return without_injected_parameters(tool.fn, run_in_thread=tool.run_in_thread) is not tool.fn


jsonable = _tools._serialize_to_jsonable
"""Takes a tool's value and its annotation, and returns plain data, written by the serializer of that type.

Raises PydanticSerializationError or UnicodeDecodeError if there is no such form.
"""


class Components(dict[str, FastMCPComponent]):
    """FastMCP's own registry of components, which counts its changes."""

    changes = 0

    def __setitem__(self, key: str, value: FastMCPComponent) -> None:
        self.changes += 1
        super().__setitem__(key, value)

    def __delitem__(self, key: str) -> None:
        self.changes += 1
        super().__delitem__(key)


def withdraw_method(mcp: FastMCP, method: str) -> None:
    """Answer a method no more. The capabilities that the server tells of follow."""
    low_level(mcp)._request_handlers.pop(method, None)


def extensions_of(mcp: FastMCP) -> dict[str, ServerExtension]:
    """The extensions that clients are told of and that take part in calls, by identifier.

    FastMCP itself adds extensions before it serves only, and removes none.
    """
    return mcp._extensions


def count_changes(mcp: FastMCP) -> Callable[[], tuple[int, ...]]:
    """A function whose value changes when anything does that a plan or a cached list depends on.

    Components may come and go while the server runs, and `enable`, `disable` and `add_…` append to these lists.
    """
    provider = mcp.local_provider
    components = provider._components = Components(provider._components)
    counted: tuple[Sized, ...] = (
        mcp._transforms,
        provider._transforms,
        mcp.middleware,
        mcp.providers,
        mcp._extensions,
        low_level(mcp)._request_handlers,
    )
    return lambda: (components.changes, *map(len, counted))


class StateStore:
    """FastMCP's store of session state, made when the first state is put into it.

    FastMCP looks into it on every handshake-protocol call for what a session has hidden, and there are no sessions. The
    store and its libraries take 6 MB and an eighth of a second.
    """

    def __init__(self, mcp: FastMCP) -> None:
        self._mcp = weakref.ref(mcp)

    async def get(self, *, key: str) -> None:
        """Nothing has been put yet."""

    delete = get

    def __getattr__(self, name: str) -> Any:
        """Anything else needs the real one."""
        mcp = cast("Any", self._mcp())
        mcp._FastMCP__state_store = None
        return getattr(mcp._state_store, name)


def store_state_later(mcp: FastMCP) -> None:
    """Have FastMCP make its store of session state when somebody needs it."""
    cast("Any", mcp)._FastMCP__state_store = StateStore(mcp)


def why_unplannable(mcp: FastMCP) -> str:
    """What of a server, if anything, only the FastMCP path knows how to do."""
    if mcp._transforms or mcp.local_provider._transforms:
        return "the server has transforms"
    if any(not isinstance(extension, LeavesToolsAlone) for extension in mcp._extensions.values()):
        return "the server has protocol extensions"
    if mcp.strict_input_validation:
        return "the server validates strictly"
    return "" if len(mcp.providers) == 1 else "the server has mounted or dynamic providers"


def serve_over_http(mcp: FastMCP) -> None:
    """Say, in the context that requests inherit, that this process serves `mcp` over HTTP and nothing else."""
    for variable, value in _process_wide(mcp).items():
        variable.set(value)


def _process_wide(mcp: FastMCP) -> dict[ContextVar[Any], Any]:
    return {
        _context._current_transport: "streamable-http",
        _dependencies._current_server: weakref.ref(mcp),
    }


class Binding:
    """FastMCP's request context for one call, bound now and filled in when somebody looks.

    Most tools never ask for their Context, and what it consists of costs more than calling them.
    """

    __slots__ = ("_same", "mcp", "state")

    def __init__(self, mcp: FastMCP, state: Any) -> None:
        self.mcp = mcp
        self.state = state
        # What `serve_over_http` has set for the whole process isn't set again for each call.
        constant = {**_process_wide(mcp), **(mcp._shared_context_snapshot or {})}
        self._same = tuple((variable.set, value) for variable, value in constant.items() if variable.get(None) != value)

    def bind(self, call: Call) -> Context:
        """Bind it in the running task, for as long as the task lives."""
        for bind, value in self._same:
            bind(value)
        fastmcp_request_ctx.set(LazyRequestContext(self, call))
        context = CallContext(self.mcp)
        _context._current_context.set(context)
        return context


class CallContext(Context):
    """A Context whose parts are made when somebody looks for them."""

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
    """What `bind_request_context` makes of an SDK request context, made on demand."""

    session = property(attrgetter("_srctx.session"))
    request = property(attrgetter("_srctx.request"))
    protocol_version = property(attrgetter("_call.version"))
    lifespan_context = property(attrgetter("_binding.state"))
    close_sse_stream = None  # a reply's stream ends with its result

    def __init__(self, binding: Binding, call: Call) -> None:
        self._binding = binding
        self._call = call

    @cached_property
    def _srctx(self) -> ServerRequestContext[Any, Any]:  # type: ignore[override]
        call, request = self._call, self._call.request
        runner = runner_of(self._binding.mcp, self._binding.state, call.version, call.client)
        dispatch, meta = Dispatch(request, call.scope, call), _extract_meta(request.params)
        return runner._make_context(dispatch, request.method, request.params, meta, call.version)

    @property
    def request_id(self) -> str:  # type: ignore[override]
        return str(self._call.request.id)

    @property
    def meta(self) -> dict[str, Any] | None:  # type: ignore[override]
        meta = (self._call.request.params or {}).get("_meta")
        return dict(meta) if isinstance(meta, Mapping) else None
